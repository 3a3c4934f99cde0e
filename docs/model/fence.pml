/*
 * Claims, moves and fenced transactions against takeovers: no time, but the locks that the server takes and when.
 *
 * The election is left out: a takeover may come at any moment, which is more than lease.pml allows. A statement holds its
 * locks until it commits by itself; a fenced transaction until its client says COMMIT, or the server ends its session.
 * A shared lock waits for an exclusive one and the other way round. README.md says what each switch takes out.
 */

/* An assertion names its guarantee, so that scripts/model can tell which one a run violates. */
#define guarantee(no, x) assert((x) || 0 == no)

#ifdef SAME_TOKEN
#define LATER 1
#else
#define LATER 2
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 2
#endif

/* ---- the database ---- */

/* fence row, and its locks */
byte fenceOwner = 1, fenceToken = 1, sharers;
bool exclusive;
/* lease row: only which process locked it, and whether that one waits for the fence row meanwhile */
bool leaseLocked, leaseWaits;
byte leaseSharers;

/* the run of one tick; there is no row while runID is 0. runLocked: written and not committed. */
#define RUNNING 1
#define FINISHED 2
byte runID, runOwner, runToken, runAttempt, runState;
bool runLocked;

/* ---- what has happened ---- */

byte started[4];      /* how often each attempt was begun */
bool concluded[4];    /* a call said that its claim is not there, and never will be */
byte taken;           /* takeovers */
bool wants;           /* one is under way */

#ifdef NO_OWNER
#define current(o, tok) (fenceToken == (tok))
#elif defined(NO_TOKEN)
#define current(o, tok) (fenceOwner == (o))
#else
#define current(o, tok) (fenceOwner == (o) && fenceToken == (tok))
#endif

/* What the guarantees say: this term's token is the group's, now. */
#define holds(o, tok) (fenceOwner == (o) && fenceToken == (tok))

/* ---- takeover: the acquire ---- */

#ifdef RUN_ROW
bool startWaits[3], takeUpWaits; /* these wait for the run's row, and share a fence row meanwhile */
byte rowSharers;
#define waitsForClient(w) (w && rowSharers > 0)
#else
#define takeUpWaits false
#define waitsForClient(w) false
#endif

inline lockFence() {
	atomic {
		guarantee(5, !waitsForClient(takeUpWaits)); /* behind a stopped client */
		sharers == 0 && !exclusive -> exclusive = true; leaseWaits = false
	}
}

/* The lease row is free, or held by a process that waits for nothing. */
inline lockLease() { atomic { !leaseLocked && leaseSharers == 0 -> leaseLocked = true } }

proctype Takeover() {
	byte o, tok;
	do
	:: taken < TAKEOVERS ->
		atomic {
			wants = true;
			if
			:: o = 1
			:: o = 2
			fi;
			tok = fenceToken + 1;
#ifdef SAME_TOKEN
			/* a failover lost the acquire, and the clock was behind: another owner, the same token */
			if
			:: taken == 0 -> o = 2; tok = 1
			:: else
			fi
#endif
		};
#ifdef LEASE_FIRST
		lockLease();
		leaseWaits = true;
		lockFence();
#else
		lockFence();
		lockLease();
#endif
		atomic {
			fenceOwner = o; fenceToken = tok; taken++; wants = false;
			exclusive = false; leaseLocked = false
		}
	:: else -> break
	od
}

inline begin(attempt) {
	started[attempt]++;
	guarantee(2, started[attempt] == 1)   /* one run of each attempt at a tick */
}

/* ---- claims ---- */

#ifdef CLAIMS

/* Statements of the calls: two for each, since the first may still run when it is repeated. */
#define CALLS 4
bool asked[2 * CALLS];
#define UNANSWERED 0
#define INSERTED 1
#define NOTHING 2
byte reply[2 * CALLS];

/*
 * INSERT IGNORE ... SELECT ... FROM fence ... LOCK IN SHARE MODE, of the call id. The server may also roll it back, as
 * when its connection is killed.
 */
proctype Claim(byte id, o, tok, no) {
	bool ok, mine;
end:	asked[2 * id + no];
	atomic {
#ifdef CLAIM_WITHOUT_LOCK
		ok = current(o, tok)
#else
		!exclusive -> sharers++; ok = current(o, tok)
#endif
	};
	if
	:: ok ->
		atomic {
			!runLocked ->
			if
			:: runID == 0 ->
				runLocked = true; mine = true
			:: else
			fi
		}
	:: else
	fi;
	atomic {
		if
		:: mine ->
			if
			:: /* committed */
				guarantee(2, holds(o, tok)); /* the claim's token is the group's at that moment */
				guarantee(2, runID == 0);    /* and a tick has one claim */
				guarantee(6, !concluded[id]); /* which its caller never took for lost */
				runID = id; runOwner = o; runToken = tok; runAttempt = 1; runState = RUNNING;
				reply[2 * id + no] = INSERTED
			:: /* rolled back: no answer */
				skip
			fi;
			runLocked = false
		:: else -> reply[2 * id + no] = NOTHING
		fi;
#ifndef CLAIM_WITHOUT_LOCK
		sharers--
#endif
	}
}

#ifdef MINE_BY_TOKEN
#define isMine(id, o, tok) (runOwner == (o) && runToken == (tok))
#else
#define isMine(id, o, tok) (runID == (id))
#endif

inline conclude(id) {
	guarantee(6, runID != id);
	concluded[id] = true
}

/* Store.Claim: the call id, on behalf of a term. */
proctype Call(byte id, o, tok) {
	byte no;
	bool absent;
	/* A term claims once it has begun. */
end:	(fenceToken > tok || holds(o, tok));
again:
	asked[2 * id + no] = true;
	if
	:: reply[2 * id + no] == INSERTED -> atomic { begin(1); goto done }
	:: reply[2 * id + no] == NOTHING
	:: /* no answer: the statement may still run */
#ifdef ABSENT_IS_FINAL
		skip
#else
		if
		:: no == 0 -> no = 1; goto again
		:: no == 1 /* and so on */
		fi
#endif
	fi;
	/* readRuns: the run and the fence row, in one statement */
#ifdef READ_IN_TWO
	absent = runID == 0;
#endif
	atomic {
#ifndef READ_IN_TWO
		absent = runID == 0;
#endif
		if
		:: !absent && isMine(id, o, tok) -> begin(1)
		:: !absent && !isMine(id, o, tok)
#ifdef ABSENT_IS_FINAL
		:: absent -> conclude(id)
#else
		:: absent && !current(o, tok) -> conclude(id) /* ErrReplaced */
		:: absent && current(o, tok) /* and so on */
#endif
		fi
	};
done:	skip
}

#endif

/* ---- moves ---- */

#ifdef MOVES
/* Store.Move: a term that finds a run of an older one begins its next attempt; or its own run is over. */
proctype Mover(byte o, tok, to) {
	byte attempt, wasOwner, wasToken;
	bool ok, mine;
	if
	:: atomic { runID != 0 && !runLocked && runState == RUNNING && runAttempt < 3 &&
		(to == FINISHED && runOwner == o && runToken == tok || to == RUNNING && (runOwner != o || runToken != tok) && (fenceToken > tok || holds(o, tok))) ->
		attempt = runAttempt; wasOwner = runOwner; wasToken = runToken }
	:: goto done
	fi;
	atomic {
#ifdef MOVE_WITHOUT_FENCE
		ok = true
#else
		!exclusive -> sharers++; ok = current(o, tok)
#endif
	};
	if
	:: ok ->
		atomic {
			!runLocked ->
#ifdef MOVE_UNGUARDED
			mine = true
#elif defined(MOVE_BY_STATE)
			mine = runState == RUNNING
#else
			mine = runState == RUNNING && runAttempt == attempt && runOwner == wasOwner && runToken == wasToken
#endif
			;
			runLocked = mine
		}
	:: else
	fi;
	atomic {
		if
		:: mine ->
			guarantee(2, holds(o, tok));        /* who was replaced moves nothing */
			guarantee(2, runState != FINISHED);     /* a final state stays */
			runLocked = false; runOwner = o; runToken = tok; runState = to;
			runAttempt = (to == RUNNING -> attempt + 1 : attempt)
		:: else
		fi;
#ifndef MOVE_WITHOUT_FENCE
		sharers--;
#endif
		if
		:: mine && to == RUNNING -> begin(attempt + 1)
		:: else
		fi
	};
done:	skip
}
#endif

/* ---- fenced transactions ---- */

#ifdef TRANSACTIONS
inline unlock() {
#ifdef FENCE_PLAIN_READ
	skip
#elif defined(FENCE_IS_LEASE)
	leaseSharers--
#else
	sharers--
#endif
}

proctype Transaction(byte o, tok) {
	bool ok;
end:	(fenceToken > tok || holds(o, tok));
	/* the work, in tables of its own; then, at its end, the check */
	atomic {
#ifdef FENCE_PLAIN_READ
		ok = current(o, tok)
#elif defined(FENCE_IS_LEASE)
		!leaseLocked -> leaseSharers++; ok = current(o, tok)
#else
		!exclusive -> sharers++; ok = current(o, tok)
#endif
	};
	if
	:: atomic { ok ->
		guarantee(3, holds(o, tok)); /* at the COMMIT */
		unlock() }
	:: ok -> /* the client is stopped before it can say COMMIT */
#ifdef NO_WAIT_TIMEOUT
end0:		false
#else
		unlock() /* wait_timeout: the server ends the session, which rolls back */
#endif
	:: !ok -> unlock()
	fi
}

/* A heartbeat needs the lease row, and waits for no fenced transaction: neither directly nor behind a takeover that does. */
proctype Heartbeat() {
	byte n;
	do
	:: n < 2 ->
		atomic {
			guarantee(5, leaseSharers == 0 && !(leaseLocked && leaseWaits && sharers > 0));
			!leaseLocked -> n++
		}
	:: else -> break
	od
}
#endif

/* ---- runs that are spread over members: the run's row, which fenced transactions compare ---- */

#ifdef RUN_ROW
/*
 * The design of what is to come; no code follows it yet. A member's session is a lease with a fence row, which a burial moves. What starts, finishes or takes up
 * a run is one statement, which locks the run's row for that long. A fenced transaction shares that lock until its client says COMMIT, or the server ends it.
 */
#define WAITING 3
#define STARTS 3
byte rowState = RUNNING, rowMember = 1, rowSession = 1, rowAttempt = 1, rowToken = 1, rowNumber;
byte sessionToken[3] = 1, sessionSharers[3];

/* each start that there was, and what its transactions compare */
byte starts = 1, startMember[STARTS + 1] = 1, startSession[STARTS + 1] = 1, startAttempt[STARTS + 1] = 1, startToken[STARTS + 1] = 1;

inline write(to) { rowState = to; rowNumber++ }

#define rowFree (rowSharers == 0)
/* Statements leave a locked row to their next repetition. */
#ifdef WAIT_FOR_ROW
#define rowSkipped false
#define waiting true
#else
#define rowSkipped (!rowFree)
#define waiting false
#endif

/* The leader assigns the run to member 1 or 2. That it compares the leader's fence is in MOVES. */
proctype Assign() {
end:	do
	:: atomic { rowState == WAITING && rowMember == 0 && rowFree && starts < STARTS ->
		if
		:: rowMember = 1
		:: rowMember = 2
		fi;
		rowSession = sessionToken[rowMember]; write(WAITING) }
	od
}

#ifdef START_WITHOUT_LOCK
#define share(m) skip
#define unshare(m) skip
#else
#define share(m) sessionSharers[m]++
#define unshare(m) sessionSharers[m]--
#endif

proctype Start(byte m) {
	byte s, number;
	bool ok;
end:	do
	:: atomic { rowState == WAITING && rowMember == m && rowSession == sessionToken[m] && starts < STARTS ->
		s = rowSession; number = rowNumber };
		atomic { share(m); ok = sessionToken[m] == s; startWaits[m] = waiting };
		if
		:: atomic { rowFree -> startWaits[m] = false;
			if
			:: ok && rowState == WAITING && rowNumber == number ->
				guarantee(2, sessionToken[m] == s); /* it starts under a session that is not over */
				rowAttempt++; write(RUNNING);
				rowToken = starts + 1; /* above all that came before, also those that were lost */
				starts++;
				startMember[starts] = m; startSession[starts] = s; startAttempt[starts] = rowAttempt; startToken[starts] = rowToken
			:: else
			fi;
			unshare(m) }
		:: atomic { rowSkipped -> startWaits[m] = false; unshare(m) }
		fi;
		s = 0; number = 0; ok = false
	od
}

#define underWay(k) (rowState == RUNNING && rowMember == startMember[k] && rowSession == startSession[k] && rowAttempt == startAttempt[k])

/* Finish is sent once the job has returned. What it has left in its connection may still commit. */
proctype Finish(byte k) {
	byte to;
end:	starts >= k;
	if
	:: to = FINISHED
	:: to = WAITING
	fi;
end1:	do
	:: atomic { rowFree && underWay(k) ->
		rowMember = (to == WAITING -> 0 : rowMember); write(to); break }
	:: atomic { rowFree && !underWay(k) -> break }
	:: atomic { rowSkipped -> skip }
	od
}

/* The session is over: it is buried, and then its run is taken up. The leader is that of token 1. */
proctype Bury(byte m) {
	byte s, number;
	bool ok;
	s = sessionToken[m];
	wants = true;
	atomic {
		/* what shares the fence row is quick: it waits for no client */
		guarantee(5, !waitsForClient(startWaits[m]));
		sessionSharers[m] == 0 -> sessionToken[m]++ };
	do
	:: atomic { rowState == RUNNING && rowMember == m && rowSession == s -> number = rowNumber };
		atomic { !exclusive -> sharers++; ok = current(1, 1); takeUpWaits = waiting };
		if
		:: atomic { rowFree -> takeUpWaits = false; sharers--;
			if
			:: ok && rowState == RUNNING && rowNumber == number ->
				guarantee(2, holds(1, 1));
				rowMember = 0; write(WAITING)
			:: else
			fi };
			break
		:: atomic { rowSkipped -> takeUpWaits = false; sharers-- }
		fi
	:: atomic { !(rowState == RUNNING && rowMember == m && rowSession == s) -> break }
	od;
	wants = false
}

#ifdef REWINDS
/* A failover loses the newest start. Connections end with the server; contexts go on until they find out. */
proctype Rewind() {
end:	atomic { rowState == RUNNING && rowFree && starts < STARTS ->
		rowAttempt--; rowMember = 0; write(WAITING) }
}
#endif

#ifdef NO_RUN_STATE
#define isRunning true
#else
#define isRunning (rowState == RUNNING)
#endif
#ifdef NO_RUN_ATTEMPT
#define sameAttempt(k) true
#else
#define sameAttempt(k) (rowAttempt == startAttempt[k])
#endif
#ifdef NO_RUN_TOKEN
#define sameToken(k) true
#else
#define sameToken(k) (rowToken == startToken[k])
#endif
#ifdef RUN_BY_FENCE
#define accepted(k) (sessionToken[startMember[k]] == startSession[k])
#else
#define accepted(k) (isRunning && rowMember == startMember[k] && rowSession == startSession[k] && sameAttempt(k) && sameToken(k))
#endif

inline unlockRow(k) {
#ifdef RUN_PLAIN_READ
	skip
#elif defined(RUN_BY_FENCE)
	sessionSharers[startMember[k]]--
#else
	rowSharers--
#endif
}

/* A fenced transaction of start k: the work; then, at its end, the check. */
proctype RunTransaction(byte k) {
	bool ok;
end:	starts >= k;
	atomic {
#ifdef RUN_PLAIN_READ
		ok = accepted(k)
#elif defined(RUN_BY_FENCE)
		sessionSharers[startMember[k]]++; ok = accepted(k)
#else
		rowSharers++; ok = accepted(k)
#endif
	};
	if
	:: atomic { ok ->
		guarantee(3, rowState == RUNNING && starts == k); /* at the COMMIT */
		unlockRow(k) }
	:: true -> /* the client is stopped before it can say COMMIT, or ROLLBACK */
#ifdef NO_WAIT_TIMEOUT
end0:		false
#else
		unlockRow(k)
#endif
	:: atomic { !ok -> unlockRow(k) }
	fi
}
#endif

init {
	atomic {
		run Takeover();
#ifdef RUN_ROW
		startMember[0] = 0;
		run Assign(); run Start(1); run Start(2); run Finish(1); run Finish(2); run Bury(1);
		run RunTransaction(1); run RunTransaction(2);
#ifdef REWINDS
		run Rewind();
#endif
#endif
#ifdef CLAIMS
		/* two callers of the first term, and one of each that may come after it */
		run Call(1, 1, 1); run Claim(1, 1, 1, 0); run Claim(1, 1, 1, 1);
		run Call(2, 1, 1); run Claim(2, 1, 1, 0);
		run Call(3, 2, LATER); run Claim(3, 2, LATER, 0);
#endif
#ifdef MOVES
		/* a run of the first term; its end, its next attempt, and two callers of the next term that adopt it */
		runID = 1; runOwner = 1; runToken = 1; runAttempt = 1; runState = RUNNING; started[1] = 1;
		run Mover(1, 1, FINISHED); run Mover(2, LATER, RUNNING); run Mover(2, LATER, RUNNING); run Mover(1, 1, RUNNING)
#endif
#ifdef TRANSACTIONS
		run Transaction(1, 1); run Transaction(2, LATER); run Heartbeat()
#endif
	}
}

#ifdef LIVE
/* Guarantee 5, of its part here: no client, stopped where it may be, keeps a takeover from happening. */
ltl takes { [] (wants -> <> !wants) }
#endif
