/*
 * The election: two replicas, one database server, and time.
 *
 * Names are those of the code: Look, Read, Prepare, Acquire, Renew, Release, observe, adopt, settle, confirm. A
 * statement is a message that its client may give up waiting for, that the server runs once, late or never, and whose
 * answer may be late or lost. README.md says what the bounds are, which guarantee is which assertion, and what each
 * switch takes out.
 *
 * All clocks are counters of ticks. Nothing holds an instant: each variable named after a moment is the time since
 * then by the clock of its owner, and stops growing where it makes no difference any more. What is due at an instant
 * happens with the tick that brings it.
 */

#ifndef SKIPS
#define SKIPS 0      /* 1: each clock may show one tick less than the others, once */
#endif
#define MARGIN SKIPS /* what two clocks may differ by over one TTL */
#define GRACE 1
#ifndef TTL
#if SKIPS > 0
#define TTL 4        /* in ticks */
#else
#define TTL 3
#endif
#endif
#ifndef TTL0
#define TTL0 TTL     /* replica 0's */
#endif
#ifndef TTL1
#define TTL1 TTL
#endif
#ifndef ACQUIRES
#define ACQUIRES 2   /* statements of a kind, in all */
#endif
#ifndef NUMBERS
#define NUMBERS 2    /* heartbeat numbers of one owner: its acquires and renewals */
#endif
#ifndef OWNERS
#define OWNERS 2     /* starts of processes: one more for each restart */
#endif
#ifndef RELEASES
#define RELEASES 1
#endif
#ifndef LOSSES
#define LOSSES 1     /* answers that never come: the statement may run, at any time or never */
#endif
#ifndef PAUSES
#define PAUSES 0     /* a process is stopped, or its machine sleeps */
#endif
#ifndef RESTARTS
#define RESTARTS 0   /* a process dies and is started again, under a new owner's name */
#endif
#define SLOTS (2 + (LOSSES + RESTARTS)) /* statements under way: one that each replica waits for, and those that nobody does */
#ifndef STEPS
#define STEPS 0      /* steps of the database's clock */
#endif
#ifndef STEP
#define STEP 4       /* by how many ticks; negative: back */
#endif
#ifndef STEP2
#define STEP2 STEP   /* the second step */
#endif
#ifndef FAILOVERS
#define FAILOVERS 0  /* another server takes over, with the rows of an earlier moment */
#endif
#ifndef REWINDS
#define REWINDS 0    /* the rows are set back in place */
#endif
#ifndef DELETES
#define DELETES 0    /* the lease row is deleted */
#endif
#ifndef DEATHS
#define DEATHS 0     /* a process dies for good */
#endif
#ifndef OUTAGES
#define OUTAGES 0    /* the database is away for a while */
#endif
#if STEPS > 0 || defined(WAITS) || defined(NO_OBSERVATION)
#define AGES         /* followers judge a heartbeat that is new to them by the database's clock; else its age is zero */
#endif

#define max(a, b) ((a) > (b) -> (a) : (b))
#define min(a, b) ((a) < (b) -> (a) : (b))

#define TTLMAX max(TTL0, TTL1)
#define ttl(i) ((i) == 0 -> TTL0 : TTL1)
#define LONG (2 * TTLMAX + 1)              /* longer than anything that is compared with it */
#define FAR (LONG + TTLMAX + 2)            /* the same for the database's clock, both ways */

#ifdef GRACE_MISSING
#define trust(i) (ttl(i) - MARGIN)
#elif defined(NO_DRIFT_MARGIN)
#define trust(i) (ttl(i) - GRACE)
#else
#define trust(i) (ttl(i) - MARGIN - GRACE) /* Timing.Trust */
#endif

/* The least that a clock shows while another shows d: no clock misses more than this in so long. */
#ifdef NO_SLOWED
#define slowed(d) (d)
#else
#define slowed(d) ((d) <= 0 -> (d) : ((d) > LONG -> (d) - 2 * MARGIN : (d) - MARGIN))
#endif

#define NOBODY 0
#define NONE 255

/* ---- the database ---- */

/* lease row; renewed is the age of renewed_at by the database's clock */
bool lease = false, released;
byte owner, token, heartbeat, rowTTL;
short renewed;
/* fence row */
bool fence = false;
byte fenceOwner, fenceToken;
bit server;     /* the identity */
bool clockBehind; /* the clock reads less than the newest tokens */

bool up = true;

/* the moment that a failover or a rewind goes back to */
bool kept, keptLease, keptReleased, keptFence;
byte keptOwner, keptToken, keptHeartbeat, keptTTL, keptFenceOwner, keptFenceToken;

/* statements under way */
mtype = { acquire, renew, release, prepare };
#define FREE 0
#define SENT 1
#define DONE 2       /* the server has run it, and its client has not heard yet */
byte state[SLOTS];
mtype kind[SLOTS];
bit from[SLOTS];
byte mOwner[SLOTS], mToken[SLOTS], mHeartbeat[SLOTS], mFence[SLOTS], mFloor[SLOTS], mNumber[SLOTS], mTTL[SLOTS];
bit mServer[SLOTS];  /* of the connection */
bool mBlind[SLOTS];  /* sent by who cannot know; see blind */
#ifdef TAKES
bool mTake[SLOTS];   /* an acquire that no reading came before, see take */
#define takes(s) mTake[s]
#else
#define takes(s) false
#endif
byte answer[SLOTS];  /* of DONE: the token, or 1 row; 0 rows */
short began[SLOTS];  /* since the statement began in the server, by its clock; NONE before */

/* ---- the replicas ---- */

#define AWAKE 0
#define STOPPED 1    /* the process; both of its clocks go on */
#define ASLEEP 2     /* the machine; its monotonic clock stands still */
#define DEAD 3
byte process[2];
byte self[2];        /* the owner's name */
byte number[2];      /* the last heartbeat number used */
byte waits[2];       /* for the answer in slot - 1 */

/* Held */
#define CANDIDATE 0
#define TRUSTED 1    /* the term's context is alive */
#define DRAINING 2
byte term[2], myToken[2], myHeartbeat[2];
byte since[2];       /* the newest confirmed statement was sent; the context ended, after the term */
byte pending[2 * (NUMBERS + 1)]; /* since the statement with that number was sent; NONE: answered */
byte lastToken[2];   /* of the last term */
#define IDLE 0
#define WORKING 1
#define OVERSLEPT 2  /* was not running when it should have stopped */
byte work[2];

/* watch */
bool looking[2];     /* a reading is under way */
byte between[2];     /* from the last reading's answer to the sending of this one */
bool seen[2];        /* there was a reading, and what it showed: */
byte seenToken[2], seenHeartbeat[2];
bit seenServer[2];
byte replied[2];     /* since its answer, by the follower's monotonic clock */
short seenNow[2];    /* and by the database's clock */
byte age[2];         /* of the heartbeat */
byte quarantine[2];  /* what is left of it */
byte highToken[2], highHeartbeat[2], highTTL[2];
bool behind[2];

/* ---- what is left to happen, and what has happened ---- */

byte acquires = ACQUIRES, releases = RELEASES, losses = LOSSES, pauses = PAUSES, restarts = RESTARTS;
byte deaths = DEATHS, outages = OUTAGES, steps = STEPS, failovers = FAILOVERS, rewinds = REWINDS, deletes = DELETES;
bool skipped[3];     /* replica 0, replica 1, the database */
byte starts;         /* of processes */

byte newest;         /* the largest token ever given */
byte holder, holderToken; /* of the last acquire that ran */
bool lost;           /* rows went back */
bool anew;           /* and a process has acquired since */
byte lostToken, lostHeartbeat; /* the row that did */
bool blind[2];       /* started after a failover that lost it */
bool outside;        /* a case that the guarantees name as outside of them: nothing more is checked */

/* With TIMELY, what there is to do is done before the next tick: looks, and statements or their failure. */
bool looked[2];      /* and found nothing to do */
byte vacant[2];      /* ticks for which nobody has led while this replica watched */
bool clean;          /* the lease was released by its holder */

/* Scratch, of no meaning between two steps. Spin searches breadth first only without hidden variables. */
#ifdef SHORTEST
#define hidden
#endif
hidden byte k, n, t, wait, rt, rb, rr;
hidden short d, g;
hidden byte other, same, ok, skip0, skip1, skip2;

/* An assertion names its guarantee, so that scripts/model can tell which one a run violates. */
#define guarantee(no, x) assert((x) || 0 == no)

/* REACH=n asks whether the step marked n is ever taken: a run that says so is an error, which is then what is wanted. */
#ifndef REACH
#define REACH 0
#endif
#define mark(n) assert(REACH != n)

#define awake(i) (process[i] == AWAKE)
#define sent(i, no) pending[(i) * (NUMBERS + 1) + (no)]

/* saw: the newest row ever seen. */
inline saw(i, tok, beat, life) {
	if
	:: (tok) > highToken[i] -> highToken[i] = tok; highHeartbeat[i] = 0; highTTL[i] = 0; behind[i] = false
	:: else
	fi;
	if
	:: (tok) == highToken[i] -> highHeartbeat[i] = max(beat, highHeartbeat[i]); highTTL[i] = max(life, highTTL[i])
	:: else
	fi
}

inline forget(i) {
	for (n : 0 .. NUMBERS) { sent(i, n) = NONE }
}

/* fresh: the row's time begins anew, and with it that of guarantee 5. */
inline fresh() { vacant[0] = 0; vacant[1] = 0; clean = false }

/* clear: a slot that is free has no contents. */
inline clear(s) {
	state[s] = FREE; kind[s] = 0; from[s] = 0; mOwner[s] = 0; mToken[s] = 0; mHeartbeat[s] = 0; mFence[s] = 0;
	mFloor[s] = 0; mNumber[s] = 0; mTTL[s] = 0; mServer[s] = 0; mBlind[s] = false; answer[s] = 0; began[s] = NONE;
#ifdef TAKES
	mTake[s] = false
#endif
}

/* slot: the first free one; there always is one. */
inline slot() {
	k = 0;
	do
	:: state[k] != FREE -> k++
	:: else -> break
	od
}

inline send(i, what) {
	looked[i] = false; /* and then looks again */
	state[k] = SENT; kind[k] = what; from[k] = i; mOwner[k] = self[i]; waits[i] = k + 1; began[k] = NONE
}

/* nextNumber, and the statement's sending */
inline numbered(i) {
	number[i]++;
	mNumber[k] = number[i];
	sent(i, number[i]) = 0
}

/* observe takes in a reading of the rows as they are now. */
inline observe(i) {
	rt = (lease -> token : 0); rb = (lease -> heartbeat : 0); rr = (lease -> rowTTL : 0);
	wait = max(ttl(i), rr);
#ifndef QUARANTINE_OWN_TTL
	wait = max(wait, highTTL[i]);
#endif
	other = seen[i] && seenServer[i] != server;
#ifndef NO_IDENTITY_QUARANTINE
	if
	:: other -> mark(8); quarantine[i] = wait
	:: else
	fi;
#endif
	if
	:: fence -> saw(i, fenceToken, 0, rr)
	:: else
	fi;
	same = !other && seen[i] && seenToken[i] == rt && seenHeartbeat[i] == rb;
	ok = rt < highToken[i] || rt == highToken[i] && rb < highHeartbeat[i];
#ifndef NO_BEHIND_QUARANTINE
	if
	:: ok && (!same || !behind[i]) -> mark(7); quarantine[i] = max(wait, quarantine[i])
	:: else
	fi;
#endif
	behind[i] = ok;
	if
	:: same /* age has grown by itself */
	:: else ->
		saw(i, rt, rb, rr);
		age[i] = 0;
#ifndef AGES
#elif defined(NO_OBSERVATION)
		if
		:: lease -> age[i] = min(max(renewed, 0), LONG)
		:: else
		fi;
#else
		if
#ifdef FIRST_READING_AGE
		:: !seen[i] && lease -> age[i] = min(max(slowed(renewed), 0), LONG)
#endif
		:: seen[i] && !other && lease && between[i] <= 2 * wait && seenNow[i] < FAR ->
			g = seenNow[i] - slowed(between[i]); /* gained */
#ifdef GAIN_NOT_SUBTRACTED
			g = min(g, 0);
#endif
			d = renewed - g;
#ifndef LOSS_ADDED
			d = min(d, slowed(renewed));
#endif
#ifndef NO_BETWEEN_LIMIT
			d = min(d, between[i]);
#endif
			if
			:: d > 0 -> mark(15)
			:: else
			fi;
			age[i] = max(d, 0)
		:: else
		fi
#endif
	fi;
	seen[i] = true; seenServer[i] = server; seenToken[i] = rt; seenHeartbeat[i] = rb;
	replied[i] = 0; seenNow[i] = 0
}

#ifdef OWN_TTL
#define life(i) ttl(i)
#else
#define life(i) rowTTL
#endif

#ifdef NO_OBSERVATION
#define aged(i) (renewed >= life(i))
#else
#define aged(i) (age[i] >= life(i))
#endif

/* takeable: takeableIn is zero. */
#ifdef RELEASED_WAITS
#define free false
#else
#define free released
#endif
#define takeable(i) (quarantine[i] == 0 && (!lease || free || aged(i)))

/* hold begins a term: of token tok, by the statement that wrote number no. */
inline hold(i, tok, no) {
	myToken[i] = tok; myHeartbeat[i] = no; lastToken[i] = max(tok, lastToken[i]);
#ifdef TRUST_FROM_REPLY
	since[i] = 0;
#else
	since[i] = sent(i, no);
#endif
	forget(i);
	age[i] = TTLMAX; replied[i] = LONG; /* by the next look it is */
	saw(i, tok, no, ttl(i));
	if
	:: since[i] < trust(i) -> term[i] = TRUSTED; work[i] = WORKING
	:: else -> mark(11); end(i) /* its answer came too late: released at once */
	fi
}

inline end(i) { printf("replica %d: the term of token %d ends\n", i, myToken[i]); term[i] = DRAINING; since[i] = 0 }

/* drop ends the renewals; work may still be stopping. */
inline drop(i) {
	saw(i, myToken[i], myHeartbeat[i], ttl(i));
	term[i] = CANDIDATE; myToken[i] = 0; myHeartbeat[i] = 0; forget(i);
	if
	:: work[i] == IDLE -> since[i] = 0
	:: else
	fi
}

inline lose(i) {
	if
	:: term[i] == TRUSTED -> end(i)
	:: else
	fi;
	drop(i)
}

/* confirm: the row has the number. */
inline confirm(i, no) {
	myHeartbeat[i] = no;
	if
#ifdef REVIVE
	:: term[i] == DRAINING && sent(i, no) < trust(i) -> term[i] = TRUSTED; work[i] = WORKING; since[i] = sent(i, no)
#endif
	:: term[i] == TRUSTED ->
#ifdef TRUST_FROM_REPLY
		since[i] = 0
#else
		since[i] = sent(i, no)
#endif
	:: else
	fi;
	forget(i);
	if
	:: term[i] == TRUSTED && since[i] >= trust(i) -> end(i)
	:: else
	fi
}

/* settle concludes from the row what an unclear renewal has done. */
inline settle(i) {
	if
#ifdef SETTLE_BY_TOKEN
	:: lease && token == myToken[i] && owner == self[i] && !released -> confirm(i, number[i]); myHeartbeat[i] = heartbeat
#endif
	:: !lease || token != myToken[i] || owner != self[i] || released -> mark(6); lose(i)
	:: else ->
		if
		:: heartbeat != myHeartbeat[i] && sent(i, heartbeat) == NONE -> lose(i)
		:: heartbeat != myHeartbeat[i] && sent(i, heartbeat) != NONE -> mark(5); confirm(i, heartbeat)
		:: else
		fi
	fi
}

#ifdef ADOPT_BY_NAME
#define adoptable(i) true
#else
#define adoptable(i) (heartbeat > 0 && heartbeat <= NUMBERS && sent(i, heartbeat) < trust(i) && token > lastToken[i])
#endif

/* adoptsNoMore: the acquire of that number is not adopted any more. */
inline adoptsNoMore(i, n) {
	if
	:: n > 0 && n <= NUMBERS -> sent(i, n) = NONE
	:: else
	fi
}

/* look: what Candidate.Look does with its reading. What that shows of the clocks may keep it from taking anything. */
inline look(i, barred) {
	observe(i);
	printf("replica %d: reads token %d, heartbeat %d, released %d; age %d, quarantine %d\n", i, (lease -> token : 0), (lease -> heartbeat : 0), released, age[i], quarantine[i]);
	looking[i] = false; between[i] = 0; looked[i] = true;
	slot();
	if
	:: lease && owner == self[i] && !released && adoptable(i) && !barred ->
#if defined(ADOPT_FROM_NOW) || defined(ADOPT_BY_NAME)
		sent(i, heartbeat) = 0;
#endif
		rt = token; rb = heartbeat;
		printf("replica %d: adopts token %d\n", i, rt); mark(1);
		hold(i, rt, rb)
	:: lease && owner == self[i] && !released && (barred || !adoptable(i)) ->
		if
#ifdef OWN_ROW_AT_ONCE
		:: releases > 0 ->
#else
		:: releases > 0 && quarantine[i] == 0 ->
#endif
#ifndef ADOPT_RELEASED
			adoptsNoMore(i, heartbeat);
#endif
			mark(2); releases--; send(i, release); mToken[k] = token; mServer[k] = server
		:: else
		fi
	:: !(lease && owner == self[i] && !released) && (!lease || !fence) ->
		if
#ifdef NO_PREPARE
		:: false ->
#else
		:: (lease || fence || quarantine[i] == 0) ->
#endif

			send(i, prepare); mTTL[k] = max(ttl(i), highTTL[i]); mServer[k] = server
		:: else
		fi
	:: !(lease && owner == self[i] && !released) && lease && fence ->
		if
		:: takeable(i) && !barred && acquires > 0 && number[i] < NUMBERS ->
			printf("replica %d: sends an acquire\n", i);
			if
			:: released -> mark(4)
			:: else -> mark(3)
			fi;
			acquires--; send(i, acquire); numbered(i);
			mToken[k] = token; mHeartbeat[k] = heartbeat; mFence[k] = fenceToken; mServer[k] = server; mTTL[k] = ttl(i);
			mFloor[k] = highToken[i];
			mBlind[k] = blind[i] || lost && REWINDS > 0 &&
				(highToken[i] < lostToken || highToken[i] == lostToken && highHeartbeat[i] < lostHeartbeat)
		:: else
		fi
	fi
}

#ifdef TAKES
#ifdef TAKE_QUARANTINED
#define unquarantined(i) true
#else
#define unquarantined(i) (quarantine[i] == 0)
#endif
#ifdef TAKE_OLD_TERM
#define mayTake(i) (seen[i] && unquarantined(i) && acquires > 0 && number[i] < NUMBERS)
#else
#define mayTake(i) (seen[i] && seenToken[i] == highToken[i] && unquarantined(i) && acquires > 0 && number[i] < NUMBERS)
#endif

/* take: what Candidate.Take does when the hand-over signal has come, which may be at any time. It leans on the last
 * reading: on that connection it compares what a reading now would have to show. */
inline take(i) {
	printf("replica %d: sends an acquire without a reading\n", i);
	looked[i] = false; slot();
	acquires--; send(i, acquire); numbered(i);
	mTake[k] = true; mToken[k] = seenToken[i]; mFence[k] = seenToken[i]; mHeartbeat[k] = seenHeartbeat[i];
	mServer[k] = seenServer[i]; mTTL[k] = ttl(i); mFloor[k] = highToken[i];
	mBlind[k] = blind[i] || lost && REWINDS > 0 &&
		(highToken[i] < lostToken || highToken[i] == lostToken && highHeartbeat[i] < lostHeartbeat)
}
#endif

/* ---- the server runs a statement ---- */

#ifdef BLIND_COUNTS
#define exempt(s) false
#else
#define exempt(s) mBlind[s]
#endif

inline runAcquire(s) {
	ok = lease && fence;
#ifndef NO_ACQUIRE_TOKEN
	ok = ok && fenceToken == mFence[s] && token == mToken[s];
#endif
#ifndef NO_ACQUIRE_HEARTBEAT
	ok = ok && (heartbeat == mHeartbeat[s] || takes(s));
#endif
#ifndef TAKE_ANY_HEARTBEAT
	ok = ok && (heartbeat >= mHeartbeat[s] || !takes(s));
#endif
#ifndef TAKE_UNRELEASED
	ok = ok && (released || !takes(s));
#endif
#ifndef NO_SESSION
	ok = ok && mServer[s] == server;
#endif
	if
	:: ok ->
		t = 0;
#ifndef NO_TOKEN_CLOCK
		t = (clockBehind -> 0 : newest + 1);
#endif
#ifndef NO_TOKEN_COMPARED
		t = max(t, max(mToken[s], mFence[s]) + 1);
#endif
#if !defined(NO_TOKEN_FLOOR) && !defined(NO_TOKEN_COMPARED)
		t = max(t, mFloor[s] + 1);
#endif
		/* Nobody else whose process runs is at work, but in the cases that the guarantee names. */
		n = 1 - from[s];
		if
		:: exempt(s) -> outside = true
		:: else -> guarantee(4, work[n] != WORKING || !awake(n))
		fi;
		/* Tokens grow, but where the new server's clock is behind a lost term that the acquirer has not seen. */
		guarantee(1, t > newest || lost && clockBehind && mFloor[s] < newest);
		fresh(); anew = lost; newest = max(t, newest); holder = mOwner[s]; holderToken = t;
		owner = mOwner[s]; token = t; heartbeat = mNumber[s]; rowTTL = mTTL[s]; released = false; renewed = began[s];
		fenceOwner = mOwner[s]; fenceToken = t;
		if
		:: takes(s) -> mark(16)
		:: else
		fi;
		answer[s] = t
	:: else -> mark(14); answer[s] = 0
	fi
}

inline runRenew(s) {
	ok = lease && !released;
#ifndef NO_RENEW_OWNER
	ok = ok && owner == mOwner[s];
#endif
#ifndef NO_RENEW_TOKEN
	ok = ok && token == mToken[s];
#endif
#ifndef NO_RENEW_HEARTBEAT
	ok = ok && heartbeat == mHeartbeat[s];
#endif
	answer[s] = ok;
	if
	:: ok ->
		/* A replica that was replaced renews nothing, but what a loss of commits
		 * brought back. */
		guarantee(4, lost && !anew || mOwner[s] == holder && mToken[s] == holderToken);
		if
		:: term[from[s]] == DRAINING -> mark(12)
		:: else
		fi;
		fresh(); heartbeat = mNumber[s]; renewed = began[s]
	:: else
	fi
}

inline runRelease(s) {
	ok = lease;
#ifndef NO_RELEASE_OWNER
	ok = ok && owner == mOwner[s];
#endif
#ifndef NO_RELEASE_TOKEN
	ok = ok && token == mToken[s];
#endif
	if
	:: ok -> released = true;
#ifdef TIMELY
		fresh(); clean = true
#endif
	:: else
	fi
}

/* Prepare's three inserts, each of which looks for itself. */
inline runPrepare(s) {
	if
	:: !lease && !fence ->
		lease = true; owner = NOBODY; token = 0; heartbeat = 0; released = true; rowTTL = mTTL[s]; renewed = 0
	:: !lease && fence ->
		mark(9); lease = true; owner = NOBODY; heartbeat = 0; rowTTL = mTTL[s]; renewed = 0;
		token = max(fenceToken + 1, (clockBehind -> 0 : newest + 1));
#ifdef DELETED_IS_RELEASED
		released = true
#else
		released = false
#endif
	:: else
	fi;
	if
	:: !fence -> fence = true; fenceOwner = owner; fenceToken = token
	:: else
	fi
}

inline execute(s) {
	if
	:: began[s] == NONE -> began[s] = 0
	:: else
	fi;
	printf("the server runs %e of replica %d: token %d, heartbeat %d, number %d\n", kind[s], from[s], mToken[s], mHeartbeat[s], mNumber[s]);
	if
	:: kind[s] == acquire -> runAcquire(s)
	:: kind[s] == renew -> runRenew(s)
	:: kind[s] == release -> runRelease(s)
	:: kind[s] == prepare -> runPrepare(s)
	fi;
	if
	:: waits[from[s]] == s + 1 -> state[s] = DONE; began[s] = NONE
	:: else -> clear(s)
	fi
}

inline goBack() {
	lost = true; lostToken = (lease -> token : 0); lostHeartbeat = (lease -> heartbeat : 0);
	lease = keptLease; owner = keptOwner; token = keptToken; heartbeat = keptHeartbeat; released = keptReleased; rowTTL = keptTTL;
	fence = keptFence; fenceOwner = keptFenceOwner; fenceToken = keptFenceToken;
#ifdef AGES
	renewed = FAR
#else
	renewed = 0
#endif
}

proctype Server() {
	do
	:: d_step { state[0] == SENT && up && !outside -> execute(0) }
	:: d_step { state[1] == SENT && up && !outside -> execute(1) }
#if SLOTS > 2
	:: d_step { state[2] == SENT && up && !outside -> execute(2) }
#endif
#if SLOTS > 3
	:: d_step { state[3] == SENT && up && !outside -> execute(3) }
#endif
#ifdef WAITS
	/* One that waits for a lock carries the time at which it began. */
	:: d_step { state[0] == SENT && began[0] == NONE -> began[0] = 0 }
	:: d_step { state[1] == SENT && began[1] == NONE -> began[1] = 0 }
#endif
	od
}

/* ---- the replicas ---- */

#ifdef ERROR_ENDS
bool ended[2];
#define goesOn(i) !ended[i]
#else
#define goesOn(i) true
#endif

/* heard: the answer of the statement that i waits for. */
inline heard(i) {
	k = waits[i] - 1;
	printf("replica %d: hears of %e: %d\n", i, kind[k], answer[k]);
	waits[i] = 0;
	if
	:: kind[k] == acquire && answer[k] > 0 -> hold(i, answer[k], mNumber[k])
	:: kind[k] == acquire && answer[k] == 0 -> sent(i, mNumber[k]) = NONE
	:: kind[k] == renew && term[i] != CANDIDATE && answer[k] == 1 -> confirm(i, mNumber[k])
	:: kind[k] == renew && term[i] != CANDIDATE && answer[k] == 0 -> settle(i)
	:: else
	fi;
	clear(k)
}

/* unheard: the client gives up. */
inline unheard(i) {
	k = waits[i] - 1;
	printf("replica %d: gives up waiting for %e\n", i, kind[k]);
	waits[i] = 0; losses--;
#ifdef ERROR_ENDS
	ended[i] = true;
#endif
#ifdef NO_ANSWER_IS_RENEWAL
	if
	:: kind[k] == renew && term[i] == TRUSTED -> confirm(i, mNumber[k])
	:: else
	fi;
#endif
	if
	:: takes(k) -> sent(i, mNumber[k]) = NONE /* not adopted */
	:: else
	fi;
	if
	:: state[k] == DONE -> clear(k)
	:: else
	fi
}

inline beat(i) {
	printf("replica %d: sends renewal %d\n", i, number[i] + 1);
	if
	:: term[i] == TRUSTED && since[i] >= trust(i) -> end(i)
	:: else
	fi;
	slot(); send(i, renew); numbered(i);
	mToken[k] = myToken[i]; mHeartbeat[k] = myHeartbeat[i]
}

inline giveBack(i) {
	printf("replica %d: releases token %d\n", i, myToken[i]);
	slot(); releases--; t = myToken[i];
	if
	:: term[i] == TRUSTED -> end(i)
	:: else
	fi;
#ifndef RELEASE_BEFORE_DRAIN
	work[i] = IDLE; /* it has drained by now */
#endif
	drop(i);
	send(i, release); mToken[k] = t
}

inline wake(i) {
	printf("replica %d: goes on\n", i);
	process[i] = AWAKE;
	if
	:: term[i] == TRUSTED && since[i] == trust(i) -> end(i)
	:: term[i] == TRUSTED && since[i] > trust(i) -> mark(13); work[i] = OVERSLEPT
	:: term[i] != TRUSTED && since[i] >= GRACE -> work[i] = IDLE
	:: else
	fi
}

inline die(i) {
	printf("replica %d: dies for good\n", i);
	deaths--; process[i] = DEAD; vacant[i] = 0; looked[i] = false;
	if
	:: waits[i] > 0 && state[waits[i] - 1] == DONE -> k = waits[i] - 1; clear(k)
	:: else
	fi;
	waits[i] = 0; number[i] = 0; term[i] = CANDIDATE; myToken[i] = 0; myHeartbeat[i] = 0; since[i] = 0; forget(i); work[i] = IDLE;
	lastToken[i] = 0; forgetReading(i); highToken[i] = 0; highHeartbeat[i] = 0; highTTL[i] = 0
}

inline forgetReading(i) {
	looking[i] = false; between[i] = 0; seen[i] = false; seenToken[i] = 0; seenHeartbeat[i] = 0; seenServer[i] = 0;
	replied[i] = 0; seenNow[i] = 0; age[i] = 0; quarantine[i] = 0; behind[i] = false
}

inline restart(i) {
	printf("replica %d: dies and is started again\n", i);
	if
	:: waits[i] > 0 && state[waits[i] - 1] == DONE -> k = waits[i] - 1; clear(k)
	:: else
	fi;
	process[i] = AWAKE; vacant[i] = 0; waits[i] = 0; number[i] = 0; looked[i] = false;
	starts++; self[i] = starts;
	term[i] = CANDIDATE; myToken[i] = 0; myHeartbeat[i] = 0; since[i] = 0; forget(i); lastToken[i] = 0; work[i] = IDLE;
	forgetReading(i); highToken[i] = 0; highHeartbeat[i] = 0; highTTL[i] = 0;
	blind[i] = lost && FAILOVERS > 0
}

#ifdef CONTEXT_ONLY
#define mayStart(i) (term[i] == TRUSTED)
#else
#define mayStart(i) (term[i] == TRUSTED && since[i] < trust(i)) /* Held.Trusted */
#endif

#ifdef ONE_FOLLOWER
#define follows(i) ((i) == 1) /* replica 0 does not come back, so that there is less to search */
#else
#define follows(i) true
#endif
#define campaigns(i) (goesOn(i) && term[i] == CANDIDATE && work[i] == IDLE && waits[i] == 0 && up && !outside && (acquires > 0 || owner == self[i]) && follows(i))

#ifdef LIVE
/* Nothing more goes wrong. From then on a look and a statement take less than a tick. */
#define timely (process[0] == DEAD && awake(1) && up && !outside && deaths + losses + pauses + steps + deletes + failovers + outages == 0)
/* And replica 1 watches, and the bounds leave it enough to try with. */
#define quiet (timely && term[1] == CANDIDATE && waits[1] == 0 && acquires > 1 && releases > 0 && number[1] + 1 < NUMBERS)
#else
#define timely true
#endif
#if defined(TIMELY) || defined(LIVE)
#define idle(i) (timely && looked[i])
#define settled(i) (!awake(i) || waits[i] == 0 && !looking[i] && (looked[i] || !campaigns(i)))
#define due(s) (state[s] == FREE)
#else
#define idle(i) false
#endif

proctype Replica(bit i) {
	do
	/* Candidate */
#ifdef AGES
	:: d_step { awake(i) && campaigns(i) && !idle(i) && !looking[i] -> printf("replica %d: asks for the rows\n", i); looking[i] = true; between[i] = replied[i] }
	:: d_step { awake(i) && looking[i] && up -> look(i, false) }
#else
	:: d_step { awake(i) && campaigns(i) && !idle(i) -> look(i, false) }
#ifdef BARS
	:: d_step { awake(i) && campaigns(i) && !idle(i) -> look(i, true) }
#endif
#endif
#ifdef TAKES
	:: d_step { awake(i) && campaigns(i) && !looking[i] && mayTake(i) -> take(i) }
#endif
	/* Keeper and Held */
	:: d_step { awake(i) && term[i] != CANDIDATE && waits[i] == 0 && number[i] < NUMBERS -> beat(i) }
	:: d_step { awake(i) && term[i] != CANDIDATE && waits[i] == 0 && releases > 0 -> giveBack(i) }
	/* What starts a job asks first, and nobody else has taken the lease then. */
	:: d_step { awake(i) && mayStart(i) && !outside -> guarantee(4, holder == self[i] && holderToken == myToken[i]) }
	/* both */
	:: d_step { awake(i) && waits[i] > 0 && state[waits[i] - 1] == DONE -> heard(i) }
	:: d_step { awake(i) && waits[i] > 0 && losses > 0 -> unheard(i) }
	/* faults */
	:: d_step { awake(i) && pauses > 0 -> printf("replica %d: is stopped\n", i); pauses--; process[i] = STOPPED }
	:: d_step { awake(i) && pauses > 0 -> printf("replica %d: falls asleep with its machine\n", i); pauses--; process[i] = ASLEEP }
	:: d_step { (process[i] == STOPPED || process[i] == ASLEEP) -> wake(i) }
	:: d_step { awake(i) && deaths > 0 -> die(i) }
	:: d_step { restarts > 0 && starts < OWNERS -> restarts--; restart(i) }
	od
}

/* ---- time ---- */

#ifdef MONOTONIC_ONLY
#define counts(i) (process[i] != ASLEEP)
#else
#define counts(i) true /* the larger of the monotonic and the wall clock */
#endif

inline replicaTick(i, skips) {
	if
	:: !(skips) && counts(i) ->
		if
		:: term[i] != CANDIDATE || work[i] != IDLE -> since[i] = min(since[i] + 1, TTLMAX)
		:: else
		fi;
		for (n : 1 .. NUMBERS) {
			if
			:: sent(i, n) < TTLMAX -> sent(i, n) = sent(i, n) + 1
			:: else
			fi;
			if
			:: term[i] == CANDIDATE && sent(i, n) >= trust(i) -> sent(i, n) = NONE /* of no use any more */
			:: else
			fi
		}
	:: else
	fi;
	if
	:: !(skips) && process[i] != ASLEEP && seen[i] ->
		age[i] = min(age[i] + 1, TTLMAX);
#ifdef AGES
		replied[i] = min(replied[i] + 1, LONG);
#endif
		quarantine[i] = (quarantine[i] > 0 -> quarantine[i] - 1 : 0)
	:: else
	fi;
	if
	:: awake(i) && term[i] == TRUSTED && since[i] >= trust(i) -> end(i)
	:: awake(i) && term[i] == DRAINING && since[i] >= ttl(i) -> mark(10); work[i] = IDLE; drop(i)
	:: awake(i) && term[i] != TRUSTED && work[i] != IDLE && since[i] >= GRACE ->
		work[i] = IDLE;
		since[i] = (term[i] == CANDIDATE -> 0 : since[i])
	:: else
	fi
}

inline databaseBy(by) {
#ifdef AGES
	renewed = (lease -> max(min(renewed + (by), FAR), -FAR) : 0);
	for (n : 0 .. 1) {
		seenNow[n] = (seen[n] -> max(min(seenNow[n] + (by), FAR), -FAR) : 0)
	}
	for (n : 0 .. SLOTS - 1) {
		began[n] = (began[n] != NONE -> max(min(began[n] + (by), FAR), -FAR) : NONE)
	};
	n = 0
#else
	skip
#endif
}

inline tick() {
	printf("tick\n");
	skipped[0] = skipped[0] || skip0; skipped[1] = skipped[1] || skip1; skipped[2] = skipped[2] || skip2;
	replicaTick(0, skip0);
	replicaTick(1, skip1);
	if
	:: !skip2 -> databaseBy(1)
	:: else
	fi;
	skip0 = false; skip1 = false; skip2 = false
}

#define watches(i) (awake(i) && (owner != self[i] || released || releases > 0) && term[i] == CANDIDATE && work[i] == IDLE && acquires > 0 && number[i] < NUMBERS && follows(i))
#define led (awake(0) && term[0] == TRUSTED || awake(1) && term[1] == TRUSTED)

#ifdef LIVE
inline count() { looked[0] = false; looked[1] = false }
#elif defined(TIMELY)
/* Guarantee 5: back within the TTL, and a tick for what a look and an acquire take; at once after a clean stop. */
inline count() {
	looked[0] = false; looked[1] = false;
	if
	:: led -> clean = false
	:: else
	fi;
	for (n : 0 .. 1) {
		vacant[n] = (!led && up && watches(n) -> vacant[n] + 1 : 0);
		guarantee(5, vacant[n] <= TTLMAX + 1 + MARGIN);
		guarantee(5, !clean || vacant[n] <= 1 || quarantine[n] > 0)
	}
}
#else
inline count() { skip }
#endif
#if defined(TIMELY) || defined(LIVE)
#define ready (!timely || settled(0) && settled(1) && due(0) && due(1) && due(SLOTS - 1))
#else
#define ready true
#endif

proctype Time() {
	do
	:: d_step { !outside && ready -> count(); tick() }
#if SKIPS > 0
	:: d_step { !outside && ready && !skipped[0] -> printf("replica 0 counts no tick\n"); skip0 = true; count(); tick() }
	:: d_step { !outside && ready && !skipped[1] -> printf("replica 1 counts no tick\n"); skip1 = true; count(); tick() }
	:: d_step { !outside && ready && !skipped[2] -> printf("the database counts no tick\n"); skip2 = true; count(); tick() }
#endif
	od
}

/* ---- what befalls the database ---- */

inline keep() {
	printf("the rows are kept as they are\n");
	kept = true; keptLease = lease; keptOwner = owner; keptToken = token; keptHeartbeat = heartbeat; keptReleased = released;
	keptTTL = rowTTL; keptFence = fence; keptFenceOwner = fenceOwner; keptFenceToken = fenceToken
}

inline unkeep() {
	kept = false; keptLease = false; keptOwner = 0; keptToken = 0; keptHeartbeat = 0; keptReleased = false;
	keptTTL = 0; keptFence = false; keptFenceOwner = 0; keptFenceToken = 0
}

inline failover() {
	fresh();
	printf("another server takes over, with the rows as they were kept\n");
	failovers--; goBack(); unkeep(); server = 1 - server;
	for (n : 0 .. SLOTS - 1) {
		/* Connections are lost. An acquire that leans on one is sent on no other. */
		if
		:: state[n] == SENT && kind[n] != acquire ->
			if
			:: waits[from[n]] == n + 1 -> waits[from[n]] = 0
			:: else
			fi;
			clear(n)
		:: else
		fi
	}
	for (n : 0 .. 1) { blind[n] = !seen[n] };
	n = 0
}

inline rewind() {
	fresh();
	printf("the rows are set back in place\n");
	rewinds--; goBack(); unkeep();
	for (n : 0 .. SLOTS - 1) { mBlind[n] = state[n] == SENT };
	n = 0
}

inline outage() {
	printf("the database is away\n");
	outages--; up = false; fresh(); looking[0] = false; looking[1] = false;
	for (n : 0 .. SLOTS - 1) {
		if
		:: state[n] == SENT ->
			if
			:: waits[from[n]] == n + 1 -> waits[from[n]] = 0
			:: else
			fi;
			clear(n)
		:: else
		fi
	};
	n = 0
}

proctype Faults() {
	do
#if FAILOVERS > 0 || REWINDS > 0
	:: d_step { !kept && failovers + rewinds > 0 -> keep() }
#endif
#if FAILOVERS > 0
	:: d_step { kept && failovers > 0 -> failover() }
	:: d_step { kept && failovers > 0 -> failover(); clockBehind = true }
#endif
#if REWINDS > 0
	:: d_step { kept && rewinds > 0 -> rewind() }
	:: d_step { kept && rewinds > 0 -> rewind(); clockBehind = true }
#endif
#if DELETES > 0
	:: d_step { lease && deletes > 0 ->
		fresh();
		printf("the lease row is deleted\n"); deletes--;
		lease = false; owner = 0; token = 0; heartbeat = 0; released = false; rowTTL = 0; renewed = 0 }
#endif
#if OUTAGES > 0
	:: d_step { up && outages > 0 -> outage() }
	:: d_step { !up -> printf("the database is back\n"); up = true }
#endif
#if STEPS > 0
	:: d_step { steps > 0 ->
		g = (steps == STEPS -> STEP : STEP2);
		steps--;
		clockBehind = clockBehind || g < 0;
		printf("the database's clock is stepped by %d\n", g);
		databaseBy(g) }
#endif
	:: false
	od
}

init {
	d_step {
		self[0] = 1; self[1] = 2; starts = 2;
#ifdef SAME_OWNER
		self[1] = 1;
#endif
		forget(0); forget(1);
		for (k : 0 .. SLOTS - 1) { began[k] = NONE }
#ifdef NEW_GROUP
		k = 0
#else
		lease = true; owner = 1; token = 1; heartbeat = 1; rowTTL = TTL0; fence = true; fenceOwner = 1; fenceToken = 1;
		newest = 1; holder = 1; holderToken = 1;
		k = 0; number[0] = 1; sent(0, 1) = 0; seen[0] = follows(0); hold(0, 1, 1)
#endif
	}
	atomic { run Server(); run Time(); run Faults(); run Replica(0); run Replica(1) }
}

#ifdef LIVE
/* Guarantee 5 without a bound: once replica 0 is dead and nothing more goes wrong, replica 1 leads in the end. */
ltl returns { [] (quiet -> <> (term[1] == TRUSTED)) }
#endif
