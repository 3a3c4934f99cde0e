// What a page does beyond being read: it follows the group, counts how long ago things were, and
// takes keys. Everything on it works without this script.
"use strict";

(() => {
	const body = document.body;
	const status = document.querySelector(".live");
	// How far this machine's clock is ahead of the database's.
	let ahead = Date.now() - Date.parse(body.dataset.now);

	// What a user has switched off stays so in this browser, if that keeps anything.
	const isOff = (what) => { try { return localStorage.getItem("cronlease." + what) === "off"; } catch { return false; } };
	const off = { live: isOff("live"), keys: isOff("keys") };
	const switched = (what, then) => {
		const button = document.querySelector(`[data-switch="${what}"]`);
		if (!button) return;
		button.hidden = false;
		button.addEventListener("click", () => {
			off[what] = !off[what];
			try { localStorage.setItem("cronlease." + what, off[what] ? "off" : "on"); } catch { /* for this page alone */ }
			then(button);
		});
		then(button);
	};

	// Times that are told by how long ago they were. The same words as on the server.
	const coarse = (seconds) => {
		if (seconds < 60) return Math.floor(seconds) + " s";
		if (seconds < 3600) return Math.floor(seconds / 60) + " min";
		if (seconds < 172800) return Math.floor(seconds / 3600) + " h";
		return Math.floor(seconds / 86400) + " d";
	};
	const ago = (at) => {
		const seconds = (Date.now() - ahead - at) / 1000;
		if (Math.abs(seconds) < 1) return "now";
		return seconds < 0 ? "in " + coarse(-seconds) : coarse(seconds) + " ago";
	};
	const count = () => {
		for (const time of document.querySelectorAll("time[data-ago]")) {
			const text = ago(Date.parse(time.dateTime));
			if (time.textContent !== text) time.textContent = text;
		}
	};
	setInterval(() => { if (!off.live) count(); }, 1000);

	// What follows the group are the elements with an id and data-live: they are replaced by those of
	// the same page as it is now.
	const focused = () => {
		const at = document.activeElement;
		const part = at && at.closest("[data-live]");
		if (!part) return null;
		const all = [...part.querySelectorAll("a, button, input, [tabindex]")];
		const href = at.getAttribute("href");
		return { part: part.id, href, index: all.indexOf(at) };
	};
	const focus = (was) => {
		const part = was && document.getElementById(was.part);
		if (!part || part.contains(document.activeElement)) return;
		const all = [...part.querySelectorAll("a, button, input, [tabindex]")];
		const same = all.find((e) => was.href !== null && e.getAttribute("href") === was.href) || all[was.index];
		if (same) same.focus({ preventScroll: true });
	};
	const show = (text) => {
		const next = new DOMParser().parseFromString(text, "text/html");
		// Another page, such as the one that asks for a password, or no outage any more.
		if (!next.body.dataset.now || "outage" in body.dataset) return false;
		ahead = Date.now() - Date.parse(next.body.dataset.now);
		const was = focused();
		for (const part of document.querySelectorAll("[data-live][id]")) {
			const now = next.getElementById(part.id);
			if (!now) {
				part.replaceChildren();
			} else if (now.innerHTML !== part.dataset.was) {
				const scrolled = [...part.querySelectorAll(".output, .scroll")].map((e) => [e.scrollTop, e.scrollLeft]);
				const text = now.innerHTML;
				part.replaceWith(now);
				now.dataset.was = text;
				[...now.querySelectorAll(".output, .scroll")].forEach((e, i) => {
					if (scrolled[i]) [e.scrollTop, e.scrollLeft] = scrolled[i];
				});
			}
		}
		focus(was);
		count();
		return true;
	};

	let asked = null, waiting = 0, last = 0;
	const say = (is, text) => {
		if (!status || status.dataset.is === is) return;
		status.dataset.is = is;
		status.textContent = text;
	};
	const refresh = async (url) => {
		if (asked) asked.abort();
		const mine = asked = new AbortController();
		last = Date.now();
		try {
			const answer = await fetch(url || location.href, { signal: mine.signal, headers: { Accept: "text/html" } });
			if (!answer.ok) say("lost", answer.status === 503 ? "not live: no database" : "not live: no answer");
			else if (!show(await answer.text())) location.reload();
			else if (!off.live) say("live", "live");
		} catch (e) {
			if (e.name !== "AbortError") say("lost", "not live: no answer");
		} finally {
			if (asked === mine) asked = null;
		}
	};
	// At most one look in 1.5 s, however much happens.
	const news = () => {
		if (waiting || document.hidden || off.live) return;
		waiting = setTimeout(() => { waiting = 0; refresh(); }, Math.max(150, last + 1500 - Date.now()));
	};

	let events = null, version = null;
	const listen = () => {
		if (events || document.hidden || off.live || !body.dataset.events) return;
		events = new EventSource(body.dataset.events);
		events.addEventListener("message", (e) => {
			const told = JSON.parse(e.data);
			if (told.error) { say("lost", "not live: no database"); return; }
			say("live", "live");
			if (version !== null && version !== told.version || "outage" in body.dataset) news();
			version = told.version;
		});
		events.onerror = () => {
			say("lost", "not live: no connection");
			if (events && events.readyState === EventSource.CLOSED) { events = null; setTimeout(listen, 10000); }
		};
	};
	const leaveEvents = () => {
		if (events) events.close();
		events = null;
	};
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) {
			leaveEvents();
		} else {
			listen();
			news();
		}
	});
	if (status) {
		switched("live", (button) => {
			button.textContent = off.live ? "go on" : "stop";
			button.setAttribute("aria-label", off.live ? "Go on following the group" : "Stop the page from changing by itself");
			if (off.live) {
				leaveEvents();
				if (asked) asked.abort();
				clearTimeout(waiting);
				waiting = 0;
				say("stopped", "stopped");
			} else {
				listen();
				if (status.dataset.is === "stopped") news();
			}
		});
		// A timeline moves on by itself, too.
		const step = Number(body.dataset.step || 30) * 1000;
		setInterval(() => { if (!document.hidden && Date.now() - last > step && events) news(); }, 1000);
	}

	// The search goes on while one types.
	for (const form of document.querySelectorAll("form[role=search]")) {
		let typing = 0;
		form.addEventListener("input", () => {
			clearTimeout(typing);
			typing = setTimeout(() => {
				const url = new URL(form.action);
				for (const [key, value] of new FormData(form)) if (value) url.searchParams.set(key, value);
				history.replaceState(null, "", url);
				refresh(url);
			}, 250);
		});
	}

	// Keys
	const go = (selector) => { const e = document.querySelector(selector); if (e) location.href = e.href; };
	const keys = document.querySelector(".keys");
	if (keys) {
		keys.hidden = false;
		switched("keys", (button) => {
			keys.firstElementChild.hidden = off.keys;
			button.textContent = off.keys ? "switch single keys on" : "switch the keys off";
		});
	}
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, .output, .scroll")) {
			if (e.key === "Escape" && e.target.closest("input[type=search]")) e.target.blur();
			return;
		}
		if (off.keys) return;
		const zooms = [...document.querySelectorAll("[data-zoom]")];
		const zoom = zooms.findIndex((z) => z.hasAttribute("aria-current"));
		switch (e.key) {
		case "/": {
			const field = document.querySelector("input[data-key='/']");
			if (!field) return;
			field.focus();
			field.select();
			break;
		}
		case "+": case "=": if (zoom > 0) location.href = zooms[zoom - 1].href; break;
		case "-": if (zoom >= 0 && zoom + 1 < zooms.length) location.href = zooms[zoom + 1].href; break;
		case "ArrowLeft": case "ArrowRight": case "n": case "o": case "r": case "l": case "a": go(`a[data-key="${e.key}"]`); return;
		default: return;
		}
		e.preventDefault();
	});

	// What a shape says, at once and in the page's own type.
	const tip = document.createElement("div");
	tip.className = "tip";
	tip.hidden = true;
	tip.setAttribute("aria-hidden", "true");
	body.append(tip);
	let over = null;
	const leave = () => {
		if (!over) return;
		const { shape, title } = over;
		shape.prepend(title);
		over = null;
		tip.hidden = true;
	};
	document.addEventListener("pointerover", (e) => {
		const shape = e.target.closest && e.target.closest(".lane a, .lane g, .chart a");
		const holder = shape && (shape.querySelector(":scope > title") ? shape : shape.closest("a, .lane > g"));
		if (over && over.shape === holder) return;
		leave();
		const title = holder && holder.querySelector(":scope > title");
		if (!title) return;
		over = { shape: holder, title };
		tip.textContent = title.textContent;
		title.remove(); // or the browser shows its own
		tip.hidden = false;
	});
	document.addEventListener("pointermove", (e) => {
		if (!over) return;
		if (!over.shape.isConnected) { over = null; tip.hidden = true; return; }
		const box = tip.getBoundingClientRect();
		const x = Math.min(e.clientX + 14, innerWidth - box.width - 8);
		const y = e.clientY + 18 + box.height > innerHeight ? e.clientY - box.height - 12 : e.clientY + 18;
		tip.style.left = Math.max(8, x) + "px";
		tip.style.top = Math.max(8, y) + "px";
	});
	document.addEventListener("pointerleave", leave);
})();
