/*
 * Runs spread over all replicas of a group: one leader assigns the runs of one job, members start and finish them. With time.
 *
 * This is the design of a mode that is to come. No code follows it yet.
 *
 * A member is a replica with a session: a lease of its own, with a fence row, as in package locks. The leader is not a process
 * here, since no rule depends on which replica leads: another leader is one step, which may come at any moment, and what the
 * one before has sent fails from then on by the leader's fence. README.md has the words, the bounds, and what each switch takes out.
 *
 * As in takeover.pml, nothing holds an instant, or a number that only grows. Where a row or a statement repeats a session, a
 * term or a number, the model keeps whether they still agree:
 *
 *   cur    the session is the one in its member's fence row
 *   own    the session is the one that its member's process has
 *   fresh  the run's row was not written since the statement was sent: it has the same number
 *   lead   no other leader since the statement was sent
 *
 * So sessions, terms, assignments and crashes are not bounded.
 *
 * A statement runs at once, or waits in one of LATE places: its client has given it up, and the server runs it at any later moment,
 * or never. No step uses an answer: a process reads the rows in the step that acts on them, at any moment. That is an answer
 * that came, or a read-back, early or late. A lost signal is a reading that comes late.
 *
 * age is what has passed since the session's last heartbeat, in ticks, for its member and for those who watch it. The member is
 * trusted while age < TTL - GRACE, its work has stopped when age = TTL, and from then on the session may be buried. To count
 * from later is to act later, which is one of the delays. A heartbeat is one step; one that is confirmed late gives less
 * trust, as does the step "its trust is over". A process that is stopped does nothing while time passes; on waking it sends
 * what it likes, and only the begin of a job looks at the trust.
 */

#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef RUNS
#define RUNS 2
#endif
#ifndef LIMIT
#define LIMIT 1      /* runs of the job at a time: 1 is overlap: forbid, more is overlap: allow with a limit, or a pool */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2   /* of each run */
#endif
#ifndef LATE
#define LATE 1       /* statements that their client has given up, at a time */
#endif
#ifndef TTL
#define TTL 3        /* at least GRACE + 2: else no session outlives a tick */
#endif
#define GRACE 1
#ifndef FAILOVERS
#define FAILOVERS 0  /* another server takes over, with the run and job rows of an earlier moment */
#endif
#ifndef LOCK
#define LOCK 0       /* LockAtLeastFor, in ticks */
#endif
#define NOBODY MEMBERS

#define max(a, b) ((a) > (b) -> (a) : (b))
#define minus(a, b) ((a) > (b) -> (a) - (b) : 0)

/* An assertion names its guarantee, so that scripts/model can tell which one a run violates. ONLY leaves out all but one. */
#ifndef ONLY
#define ONLY 0
#endif
#define guarantee(no, x) assert((x) || (ONLY != 0 && ONLY != no) || 0 == no)

/* REACH=n asks whether the step marked n is ever taken: a run that says so is an error, which is then what is wanted. */
#ifndef REACH
#define REACH 0
#endif
#define mark(n) assert(REACH != n)

/* ---- the database ---- */

/* the runs' rows */
#define ABSENT 0     /* due, and not claimed */
#define WAITING 1
#define RUNNING 2
#define OVER 3
#define FOLLOWED 4   /* in statements: over as succeeded, which inserts the run that follows */
byte state[RUNS];
byte with[RUNS] = NOBODY; /* the member that it is assigned to, or runs under */
bool cur[RUNS], own[RUNS];
byte attempt[RUNS];
#ifdef CANCELS
bool asked[RUNS];    /* for its end */
#endif
#ifdef TOKENS
/* fencing tokens: the job row's, which the end of an attempt raises; the run row's; and the one that its assign copied */
byte jobToken, token[RUNS], floor[RUNS];
byte newest[RUNS];   /* the largest that a start ever had, of the job or, with overlap, of the run */
#endif
#if LOCK > 0
/* what is left of LockAtLeastFor: as the job row's last start says, the run row's start, and of the due time that its assign wrote */
byte jobRest, rest[RUNS], due[RUNS];
byte locked;         /* what is left of it, in truth */
#endif
#ifdef FOLLOWERS
bool succeeded;      /* run 0, which run 1 follows */
bool ran;            /* the attempt in its row has returned, and not only been given back */
#endif

/* the members' leases and fence rows */
#define FREE 0       /* buried, or never held */
#define HELD 1
#define RELEASED 2
byte lease[MEMBERS], age[MEMBERS];

/* statements that were given up; the first are the oldest */
#define NONE 0
#define ASSIGN 1     /* claims, assigns, takes back, moves to another member */
#define START 2
#define FINISH 3     /* over, or waiting for another attempt */
#define TAKE_UP 4    /* the same, of a run whose session is buried */
#define END 5        /* of a run that waits, and whose end was asked for */
byte way[LATE], wayRun[LATE], wayMember[LATE], wayTo[LATE];
bool wayFresh[LATE], wayCur[LATE], wayOwn[LATE], wayLead[LATE];
#ifdef NO_NUMBER
byte wayWith[LATE];  /* the member in the row as it was sent */
#endif

/* ---- the members ---- */

#define OUT 0        /* no session, or no process */
#define WELL 1
#define DRAINING 2   /* asks for no runs, and goes on with its own */
#define ENDED 3      /* its trust is over */
byte stage[MEMBERS];
bool begun[RUNS];    /* the attempt in the row was begun */
bool done[RUNS];     /* it has returned, in the process that began it */
#ifdef NO_READ_BACK
bool told[RUNS];     /* its start was answered */
#endif
/* the context of each run that is alive: never two, says guarantee 4 */
byte context[RUNS] = NOBODY;
bool contextCur[RUNS]; /* the row still has its attempt */
bool ending[RUNS];   /* it is cancelled, and its work stops within the grace */
#ifdef AVOID
byte failed[RUNS] = NOBODY; /* until the next start, the member whose attempt has failed */
#endif
#ifdef FOLLOW_AFTER
byte owes = NOBODY;  /* the member that is to insert the run that follows */
#endif

#ifdef CALM
bool calm, finished;
bool look[MEMBERS];  /* the leader has to look for runs under sessions of this member that are buried */
#define faults (!calm)
#define looks(m) look[m]
#else
#define faults true
#define looks(m) true
#endif
#ifdef NO_BURY
bool gone[MEMBERS];  /* the leader takes the session for over, and has not moved its fence */
#define isGone(m) gone[m]
#else
#define isGone(m) false
#endif
#ifdef OLD_TERM_IS_DEAD
bool oldTerm[RUNS];
#endif
#ifdef TOKEN_OF_SESSION
byte sessionToken[MEMBERS], sessions;
#define moreSessions (sessions < MEMBERS + 2)
#else
#define moreSessions true
#endif
#ifdef TRANSACTIONS
bool chosen, commitCur; byte commitRun, commitAttempt, commitMember, commitToken;
#endif

#if FAILOVERS > 0
byte failovers = FAILOVERS, quarantine;
bool here[RUNS];     /* the run was assigned on the server that answers now */
bool checked[MEMBERS]; /* the member has compared its runs with the rows of that server */
/* the moment that a failover goes back to */
bool kept;
byte keptState[RUNS], keptWith[RUNS], keptAttempt[RUNS], keptToken[RUNS], keptJob;
bool keptCur[RUNS], keptOwn[RUNS], keptBegun[RUNS], keptDone[RUNS], keptHere[RUNS];
#endif

/* Scratch, of no meaning between two steps. Spin searches breadth first only without hidden variables. */
#ifdef SHORTEST
#define hidden
#endif
hidden byte n, q, t;
hidden byte sKind, sRun, sMember, sTo, sWith;
hidden byte sFresh, sCur, sOwn, sLead; /* Spin hides no bits */

/* ---- what statements compare ---- */

#ifdef NO_LEADER_FENCE
#define leads(l) true
#else
#define leads(l) (l)
#endif
#ifdef NO_START_FENCE
#define current(c) true
#else
#define current(c) (c)
#endif
#ifdef NO_NUMBER
#define number(f) true
#define sameRow(r, w) (with[r] == (w)) /* state and member, instead of the number */
#else
#define number(f) (f)
#define sameRow(r, w) true
#endif
#ifdef NO_ASSIGNMENT
#define assignedTo(r, m, c, f) true
#elif defined(NO_NUMBER)
#define assignedTo(r, m, c, f) (with[r] == (m) && cur[r] == (c))
#else
#define assignedTo(r, m, c, f) (f) /* the number says it all */
#endif
#ifdef NO_ATTEMPT
#define sameAttempt(r, m, c, f) (with[r] == (m) && cur[r] == (c))
#else
#define sameAttempt(r, m, c, f) (f)
#endif
#if FAILOVERS > 0 && !defined(NO_HERE)
#define onThisServer(r) here[r]
#else
#define onThisServer(r) true
#endif
#if defined(CANCELS) && !defined(START_ASKED)
#define wanted(r) (!asked[r])
#else
#define wanted(r) true
#endif
#if LOCK > 0 && !defined(NO_DUE)
#define isDue(r) (due[r] == 0)
#else
#define isDue(r) true
#endif

/* A statement that will find another row is cleared at once, as if it were lost. KEEP_DEAD keeps it. */
#ifdef KEEP_DEAD
#define dead(i) false
#else
#define dead(i) ( \
	(way[i] == ASSIGN || way[i] == TAKE_UP || way[i] == END) && !(leads(wayLead[i]) && number(wayFresh[i])) || \
	way[i] == START && !(current(wayCur[i]) && deadNumber(wayFresh[i])) || way[i] == FINISH && !deadAttempt(wayFresh[i]))
#endif
#ifdef NO_ASSIGNMENT
#define deadNumber(f) true
#else
#define deadNumber(f) number(f)
#endif
#if defined(NO_ATTEMPT) || defined(FOLLOW_UNCOMPARED)
#define deadAttempt(f) true
#else
#define deadAttempt(f) (f)
#endif

/* ---- places of statements ---- */

inline clear(i) {
	for (n : i .. LATE - 1) {
		if
		:: n < LATE - 1 ->
			q = (n + 1 < LATE -> n + 1 : n);
			way[n] = way[q]; wayRun[n] = wayRun[q]; wayMember[n] = wayMember[q]; wayTo[n] = wayTo[q];
			wayFresh[n] = wayFresh[q]; wayCur[n] = wayCur[q]; wayOwn[n] = wayOwn[q]; wayLead[n] = wayLead[q]
#ifdef NO_NUMBER
			; wayWith[n] = wayWith[q]
#endif
		:: else ->
			way[n] = NONE; wayRun[n] = 0; wayMember[n] = 0; wayTo[n] = 0;
			wayFresh[n] = false; wayCur[n] = false; wayOwn[n] = false; wayLead[n] = false
#ifdef NO_NUMBER
			; wayWith[n] = 0
#endif
		fi
	};
	n = 0; q = 0
}

inline tidy() {
#if LATE > 1
	if
	:: dead(1) -> clear(1)
	:: else
	fi;
#endif
	if
	:: dead(0) -> clear(0)
	:: else
	fi
}

#define room (way[LATE - 1] == NONE && faults)

/* giveUp leaves a statement to the server. */
inline giveUp(kind, r, m, to, c, o) {
	printf("  given up\n");
	n = 0;
	do
	:: way[n] != NONE -> n++
	:: else -> break
	od;
	way[n] = kind; wayRun[n] = r; wayMember[n] = m; wayTo[n] = to; wayFresh[n] = true; wayCur[n] = c; wayOwn[n] = o; wayLead[n] = true;
#ifdef NO_NUMBER
	wayWith[n] = with[r];
#endif
	n = 0
}

/* ---- rows that change ---- */

inline written(r) {
	for (n : 0 .. LATE - 1) {
		wayFresh[n] = (way[n] != NONE && wayRun[n] == r -> false : wayFresh[n])
	};
	n = 0;
	tidy()
}

/* vacate: the run is nobody's. */
inline vacate(r) {
	with[r] = NOBODY; cur[r] = false; own[r] = false; begun[r] = false; done[r] = false;
#ifdef NO_READ_BACK
	told[r] = false;
#endif
#ifdef OLD_TERM_IS_DEAD
	oldTerm[r] = false;
#endif
#if FAILOVERS > 0
	here[r] = false;
#endif
#ifdef FOLLOWERS
	ran = (r == 0 -> false : ran);
#endif
	contextCur[r] = false
}

#if FAILOVERS > 0
inline forget() {
	kept = false; keptJob = 0;
	for (n : 0 .. RUNS - 1) {
		keptState[n] = 0; keptWith[n] = 0; keptAttempt[n] = 0; keptToken[n] = 0; keptCur[n] = false; keptOwn[n] = false;
		keptBegun[n] = false; keptDone[n] = false; keptHere[n] = false
	};
	n = 0
}
#else
inline forget() { skip }
#endif

/* moved: the fence row of the member's session has another token. */
inline moved(m) {
	lease[m] = FREE; age[m] = 0;
	for (n : 0 .. RUNS - 1) { cur[n] = (with[n] == m -> false : cur[n]) };
	for (n : 0 .. LATE - 1) { wayCur[n] = (wayMember[n] == m -> false : wayCur[n]) };
	n = 0;
	tidy();
#ifdef CALM
	look[m] = true;
#endif
#ifdef NO_BURY
	gone[m] = false;
#endif
#ifdef TRANSACTIONS
	commitCur = (chosen && commitMember == m -> false : commitCur);
#endif
	forget()
}

/* left: no process has the member's session any more. */
inline left(m) {
	for (n : 0 .. RUNS - 1) { own[n] = (with[n] == m -> false : own[n]) };
	for (n : 0 .. LATE - 1) { wayOwn[n] = (wayMember[n] == m -> false : wayOwn[n]) };
	n = 0;
	forget()
}

/* ---- statements, when the server runs them ---- */

#define open(r) (state[r] == ABSENT || state[r] == WAITING)
#if RUNS == 2
#define running(r) (state[1 - r] == RUNNING)
#define alive(r) (context[1 - r] != NOBODY)
#else
#define running(r) ((state[(r + 1) % RUNS] == RUNNING) + (state[(r + 2) % RUNS] == RUNNING))
#define alive(r) ((context[(r + 1) % RUNS] != NOBODY) + (context[(r + 2) % RUNS] != NOBODY))
#endif

#ifdef TOKEN_OF_SESSION
#define nextToken(r, m) sessionToken[m]
#elif defined(TOKEN_OF_CLOCK)
#define nextToken(r, m) jobToken /* the clock was set back, or has not moved on */
#else
#define nextToken(r, m) (floor[r] + 1)
#endif
#if LIMIT > 1
#define othersRest(r) rest[1 - r] /* of a run that goes on: its row has its start */
#else
#define othersRest(r) 0
#endif

/* runAssign: m is NOBODY to take the run back. */
inline runAssign(r, m, c, o, l, f, w) {
	if
	:: leads(l) && open(r) && number(f) && sameRow(r, w) ->
		printf("  run %d: waits, assigned to %d (%d: to nobody)\n", r, m, NOBODY);
		vacate(r);
		state[r] = WAITING; with[r] = m; cur[r] = (m != NOBODY && c); own[r] = (m != NOBODY && o);
#ifdef TOKENS
		floor[r] = (m != NOBODY -> jobToken : 0);
#endif
#if LOCK > 0
		due[r] = (m != NOBODY -> max(jobRest, othersRest(r)) : 0);
		if
		:: due[r] > 0 -> mark(16)
		:: else
		fi;
#ifdef LOCK_FROM_ASSIGN
		jobRest = (m != NOBODY -> LOCK : jobRest);
#endif
#endif
#if FAILOVERS > 0
		here[r] = (m != NOBODY);
#endif
		written(r)
	:: else -> printf("  it changes nothing\n")
	fi
}

inline runStart(r, m, c, o, f) {
	if
	:: current(c) && state[r] == WAITING && assignedTo(r, m, c, f) && onThisServer(r) && wanted(r) && isDue(r) && attempt[r] < ATTEMPTS ->
		printf("  run %d: running under member %d\n", r, m);
		guarantee(2, c && !isGone(m)); /* nothing starts under a session that is over */
		guarantee(4, running(r) < LIMIT);
#ifdef CANCELS
		guarantee(6, !asked[r]);
#endif
#ifdef TOKENS
		t = nextToken(r, m);
		for (n : 0 .. RUNS - 1) {
			guarantee(1, t > newest[n] || LIMIT > 1 && n != r);
			newest[n] = (LIMIT == 1 || n == r -> max(newest[n], t) : newest[n])
		};
		n = 0;
#endif
#if LOCK > 0
		guarantee(4, locked == 0);
		locked = LOCK; rest[r] = LOCK; due[r] = 0;
#endif
#ifdef AVOID
		if
		:: failed[r] != NOBODY && failed[r] != m -> mark(14)
		:: else
		fi;
		failed[r] = NOBODY;
#endif
		q = c; /* which may be the row's own */
		vacate(r);
		state[r] = RUNNING; with[r] = m; cur[r] = q; own[r] = o; attempt[r]++; q = 0;
#ifdef TOKENS
		token[r] = t; floor[r] = 0; t = 0;
#endif
		written(r)
	:: else -> printf("  it changes nothing\n")
	fi
}

/* attemptEnds: the row is over, or waits for its next attempt. What ends an attempt raises the job's row. */
inline attemptEnds(r, to) {
	printf("  run %d: in state %d\n", r, to);
#ifdef TOKENS
	jobToken = max(jobToken, token[r]); token[r] = 0;
#endif
#if LOCK > 0
#ifdef LOCK_AT_END
	jobRest = (to != WAITING -> max(jobRest, rest[r]) : jobRest);
#elif !defined(LOCK_FROM_ASSIGN)
	jobRest = max(jobRest, rest[r]);
#endif
	rest[r] = 0;
#endif
	vacate(r);
	state[r] = (to == WAITING -> WAITING : OVER);
	attempt[r] = (state[r] == OVER -> 0 : attempt[r]);
#ifdef CANCELS
	asked[r] = (state[r] == OVER -> false : asked[r]);
#endif
	written(r)
}

#ifdef FOLLOWERS
/* follow inserts the run that follows. Its key is made from the run's own, so there is at most one row. */
inline follow() {
	guarantee(2, succeeded);
	state[1] = (state[1] == ABSENT -> WAITING : state[1])
}
#endif

inline runFinish(r, m, c, f, to) {
	if
	:: state[r] == RUNNING && sameAttempt(r, m, c, f) ->
		printf("  run %d: member %d has finished it\n", r, m);
#ifdef AVOID
		failed[r] = (to == WAITING -> m : NOBODY);
#endif
#ifdef FOLLOWERS
		succeeded = succeeded || to == FOLLOWED;
#endif
#ifdef FOLLOW_AFTER
		owes = (to == FOLLOWED && own[r] -> m : owes);
#endif
		attemptEnds(r, to);
#if defined(FOLLOWERS) && !defined(FOLLOW_AFTER)
		if
		:: to == FOLLOWED -> follow()
		:: else
		fi
#endif
	:: else -> printf("  it changes nothing\n");
#ifdef FOLLOW_UNCOMPARED
		if
		:: to == FOLLOWED -> follow()
		:: else
		fi
#endif
	fi
}

/* runTakeUp: the leader ends an attempt of a session that is over. */
inline runTakeUp(r, l, f, to) {
	if
	:: leads(l) && state[r] == RUNNING && number(f) ->
		printf("  run %d: taken up\n", r);
		guarantee(7, context[r] == NOBODY || !contextCur[r]); /* a run that goes on is left to its member */
		attemptEnds(r, to)
	:: else -> printf("  it changes nothing\n")
	fi
}

#ifdef CANCELS
inline runEnd(r, l, f) {
	if
	:: leads(l) && state[r] == WAITING && number(f) -> attemptEnds(r, OVER)
	:: else -> printf("  it changes nothing\n")
	fi
}
#endif

/* The server runs what was given up, or loses it. */
proctype Server(byte i) {
	do
	:: d_step { way[i] != NONE ->
		printf("the server runs late statement %d, of run %d\n", way[i], wayRun[i]);
		sKind = way[i]; sRun = wayRun[i]; sMember = wayMember[i]; sTo = wayTo[i];
		sFresh = wayFresh[i]; sCur = wayCur[i]; sOwn = wayOwn[i]; sLead = wayLead[i];
#ifdef NO_NUMBER
		sWith = wayWith[i];
#endif
		clear(i);
		if
		:: sKind == ASSIGN -> mark(1); runAssign(sRun, sMember, sCur, sOwn, sLead, sFresh, sWith)
		:: sKind == START -> mark(2); runStart(sRun, sMember, sCur, sOwn, sFresh)
		:: sKind == FINISH -> mark(3); runFinish(sRun, sMember, sCur, sFresh, sTo)
		:: sKind == TAKE_UP -> mark(4); runTakeUp(sRun, sLead, sFresh, sTo)
#ifdef CANCELS
		:: sKind == END -> mark(5); runEnd(sRun, sLead, sFresh)
#endif
		fi;
		sKind = 0; sRun = 0; sMember = 0; sTo = 0; sWith = 0; sFresh = false; sCur = false; sOwn = false; sLead = false }
	:: d_step { way[i] != NONE -> printf("late statement %d is lost\n", way[i]); clear(i) }
	od
}

/* ---- the leader ---- */

/* An endless run returns only when it is cancelled. */
#ifdef ENDLESS
#define endless true
#else
#define endless false
#endif

/* placed: a member runs it, or may start it. Nobody but the leader changes what is not placed. */
#ifdef COUNT_RUNNING
#define placed(r) (state[r] == RUNNING)
#else
#define placed(r) (state[r] == RUNNING || state[r] == WAITING && with[r] != NOBODY)
#endif
/* An assign without an answer counts as made, until the row's number has moved on, or the leader's fence. */
#define pending(i, r) (way[i] == ASSIGN && wayRun[i] == (r) && wayLead[i] && wayFresh[i] && wayMember[i] != NOBODY)
#ifdef NO_SETTLE
#define taken(r) placed(r)
#elif LATE == 1
#define taken(r) (placed(r) || pending(0, r))
#else
#define taken(r) (placed(r) || pending(0, r) || pending(1, r))
#endif
#if LOCK > 0 && LIMIT > 1 && !defined(BESIDE_UNSTARTED)
#define hasRoom(r) (!taken(1 - r) || state[1 - r] == RUNNING) /* until another one has started, nobody knows when it does */
#elif defined(FOLLOWERS)
#define hasRoom(r) (r == 0 || state[r] != ABSENT) /* another job's run, which only a finish inserts */
#elif RUNS == 2
#define hasRoom(r) (taken(1 - r) < LIMIT)
#else
#define hasRoom(r) (taken((r + 1) % RUNS) + taken((r + 2) % RUNS) < LIMIT)
#endif

#if FAILOVERS > 0 && !defined(NO_QUARANTINE)
#define ready (quarantine == 0)
#else
#define ready true
#endif

/* What the leader sees of a member may be out of date. Without faults it is not. */
#define asks(m) (lease[m] == HELD && (stage[m] == WELL || faults && stage[m] != DRAINING))
#define worthIt(r) (faults || with[r] == NOBODY || !cur[r] || stage[with[r]] != WELL)
#ifdef AVOID
#ifdef AVOID_ALWAYS
#define prefers(r, m) (failed[r] != (m))
#else
#define prefers(r, m) (faults || failed[r] != (m) || onlyOne)
#endif
#else
#define prefers(r, m) true
#endif
#define onlyOne ((stage[0] == WELL) + (stage[1] == WELL) < 2)
#define mayAssign(r, m) (ready && open(r) && wanted(r) && (with[r] != (m) || !cur[r]) && attempt[r] < ATTEMPTS && asks(m) && worthIt(r) && prefers(r, m) && hasRoom(r))

#if defined(HINT_IS_DEATH) || defined(LEADER_TIMES_OUT)
#define isDead(r) true
#elif defined(HINT_OVERDUE)
#define isDead(r) (!cur[r] || age[with[r]] >= 1)
#elif defined(OLD_TERM_IS_DEAD)
#define isDead(r) (!cur[r] || oldTerm[r])
#elif defined(RELEASED_IS_OVER)
#define isDead(r) (!cur[r] || lease[with[r]] == RELEASED)
#else
#define isDead(r) (!cur[r] || isGone(with[r]))
#endif
#define mayTakeUp(r) (ready && state[r] == RUNNING && isDead(r) && looks(with[r]))

/* It may take back what has not started, at any moment, but not for no reason again and again. */
#ifdef RESTLESS
#define mayMove(r) (faults || with[r] != NOBODY)
#else
#define mayMove(r) faults
#endif

proctype Leader(byte r) {
	do
	/* takes back, which uses up the row's number even if it was assigned to nobody */
	:: d_step { ready && state[r] == WAITING && mayMove(r) -> printf("the leader takes run %d back\n", r); runAssign(r, NOBODY, false, false, true, true, with[r]) }
	:: d_step { room && ready && state[r] == WAITING && with[r] != NOBODY -> printf("the leader takes run %d back\n", r); giveUp(ASSIGN, r, NOBODY, 0, false, false) }
	/* takes up */
	:: d_step { mayTakeUp(r) -> printf("the leader ends run %d, of member %d\n", r, with[r]); runTakeUp(r, true, true, OVER) }
	:: d_step { mayTakeUp(r) && attempt[r] < ATTEMPTS -> printf("the leader takes run %d up, of member %d\n", r, with[r]); runTakeUp(r, true, true, WAITING) }
	:: d_step { room && mayTakeUp(r) -> printf("the leader ends run %d, of member %d\n", r, with[r]); giveUp(TAKE_UP, r, with[r], OVER, false, false) }
	:: d_step { room && mayTakeUp(r) && attempt[r] < ATTEMPTS -> printf("the leader takes run %d up, of member %d\n", r, with[r]); giveUp(TAKE_UP, r, with[r], WAITING, false, false) }
#ifdef CANCELS
#ifdef NO_END_OF_WAITING
#define sweepsAsked faults
#else
#define sweepsAsked true
#endif
	/* ends what waits and was asked to end, whether it is assigned or not */
	:: d_step { ready && sweepsAsked && state[r] == WAITING && asked[r] -> printf("the leader ends run %d, which waits\n", r);
		if
		:: with[r] != NOBODY -> mark(12)
		:: else
		fi;
		runEnd(r, true, true) }
	:: d_step { room && ready && state[r] == WAITING && asked[r] -> printf("the leader ends run %d, which waits\n", r); giveUp(END, r, with[r], OVER, false, false) }
	/* the request: the mark of a user does not use up the row's number */
	:: d_step { (state[r] == WAITING || state[r] == RUNNING) && !asked[r] && (faults || endless) -> printf("a user asks for the end of run %d\n", r); asked[r] = true }
#endif
	od
}

/* Another leader: it has read the rows, and what the one before has sent fails. */
proctype Change() {
	do
	:: d_step { faults ->
		printf("another leader\n");
		for (n : 0 .. LATE - 1) { wayLead[n] = false };
		n = 0;
		tidy();
#ifdef CALM
		for (n : 0 .. MEMBERS - 1) { look[n] = true };
#endif
#ifdef OLD_TERM_IS_DEAD
		for (n : 0 .. RUNS - 1) { oldTerm[n] = (state[n] == RUNNING) };
#endif
		n = 0 }
	od
}

/* ---- sessions ---- */

#ifdef BURY_EARLY
#define mayBury(m) (lease[m] != FREE)
#elif defined(BURY_OVERDUE)
#define mayBury(m) (lease[m] == RELEASED || lease[m] == HELD && age[m] >= 1)
#elif defined(RELEASED_IS_OVER)
#define mayBury(m) (lease[m] == HELD && age[m] >= TTL)
#else
#define mayBury(m) (lease[m] == RELEASED || lease[m] == HELD && age[m] >= TTL)
#endif
#define mine(m) (lease[m] == HELD) /* of a process that has a session */
#define trusted(m) (stage[m] == WELL && age[m] < TTL - GRACE)
/* After the last fault no process comes back, unless none lives. */
#if MEMBERS > 2
#define nobodyLives (stage[0] != WELL && stage[1] != WELL && stage[2] != WELL)
#else
#define nobodyLives (stage[0] != WELL && stage[1] != WELL)
#endif

inline openSession(m) {
	printf("member %d: opens a session\n", m);
	moved(m); left(m); lease[m] = HELD; stage[m] = WELL
#ifdef TOKEN_OF_SESSION
	; sessions++; sessionToken[m] = sessions
#endif
}

inline endTrust(m) {
	printf("member %d: its trust is over\n", m);
	stage[m] = ENDED;
	for (n : 0 .. RUNS - 1) { ending[n] = (context[n] == m -> true : ending[n]) };
	n = 0
}

/* stop: a job's function has returned. */
inline stop(r) {
	done[r] = (contextCur[r] -> true : done[r]);
#ifdef FOLLOWERS
	ran = (r == 0 && contextCur[r] -> true : ran);
#endif
#if FAILOVERS > 0
	keptDone[r] = (kept && contextCur[r] && keptState[r] == RUNNING && keptAttempt[r] == attempt[r] -> true : keptDone[r]);
#endif
	context[r] = NOBODY; contextCur[r] = false; ending[r] = false
}

#if RUNS == 2
#define idle(m) (context[0] != m && context[1] != m)
#define hasNone(m) (!mineRunning(0, m) && !mineRunning(1, m))
#else
#define idle(m) (context[0] != m && context[1] != m && context[2] != m)
#define hasNone(m) (!mineRunning(0, m) && !mineRunning(1, m) && !mineRunning(2, m))
#endif
/* By the row, run r runs under the session that the member's process has. */
#define mineRunning(r, m) (state[r] == RUNNING && with[r] == (m) && own[r])

inline die(m) {
	printf("member %d: dies\n", m);
	for (q : 0 .. RUNS - 1) {
		if
		:: context[q] == m -> stop(q)
		:: else
		fi;
		done[q] = (with[q] == m -> false : done[q])
	};
	q = 0;
	stage[m] = OUT;
#ifdef FOLLOW_AFTER
	owes = (owes == m -> NOBODY : owes);
#endif
	left(m)
}

#define leftOver(r, m) (with[r] == (m) && state[r] == RUNNING && isDead(r))

proctype Member(byte m) {
	do
	:: d_step { stage[m] == OUT && (lease[m] != HELD || isGone(m)) && moreSessions && (faults || nobodyLives) -> openSession(m) }
#if FAILOVERS > 0 && !defined(NO_CHECK)
	/* The answer names the server. On a new one, the member compares its runs with the rows. */
	:: d_step { (stage[m] == WELL || stage[m] == DRAINING) && mine(m) && (age[m] > 0 || !checked[m]) ->
		printf("member %d: heartbeat\n", m);
		for (n : 0 .. RUNS - 1) {
			if
			:: !checked[m] && context[n] == m && !contextCur[n] -> mark(18); ending[n] = true
			:: else
			fi
		};
		n = 0; age[m] = 0; checked[m] = true }
#else
	:: d_step { (stage[m] == WELL || stage[m] == DRAINING) && mine(m) && age[m] > 0 -> printf("member %d: heartbeat\n", m); age[m] = 0 }
#endif
	:: d_step { stage[m] == WELL && faults -> printf("member %d: drains\n", m); stage[m] = DRAINING }
	:: d_step { (stage[m] == WELL || stage[m] == DRAINING) && (faults || !mine(m)) -> endTrust(m) }
	:: d_step { stage[m] == ENDED && !mine(m) && idle(m) -> printf("member %d: finds that it was buried\n", m); stage[m] = OUT; left(m) }
#ifdef RELEASE_BEFORE_DRAIN
	:: d_step { (stage[m] == DRAINING || stage[m] == ENDED) && mine(m) -> printf("member %d: releases\n", m);
		lease[m] = RELEASED; age[m] = 0; stage[m] = (idle(m) -> OUT : ENDED) }
#else
	:: d_step { (stage[m] == DRAINING || stage[m] == ENDED) && mine(m) && idle(m) && (faults || hasNone(m)) -> printf("member %d: releases\n", m);
		lease[m] = RELEASED; age[m] = 0; stage[m] = OUT; left(m)
#if defined(RELEASED_IS_OVER) && defined(CALM)
		; look[m] = true
#endif
	}
#endif
	:: d_step { stage[m] != OUT && faults -> die(m) }
#ifdef NO_BURY
	:: d_step { mayBury(m) && !gone[m] -> printf("the leader takes member %d for over\n", m); gone[m] = true
#ifdef CALM
		; look[m] = true
#endif
	}
#else
	/* any replica may bury it: take the lease over, as package lease says, and release it */
	:: d_step { mayBury(m) -> printf("member %d: is buried\n", m);
		for (n : 0 .. RUNS - 1) {
			if
			:: with[n] == m && state[n] == RUNNING && lease[m] == RELEASED -> mark(9)
			:: with[n] == m && state[n] == RUNNING && stage[m] == ENDED -> mark(10)
			:: else
			fi
		};
		n = 0; moved(m) }
#endif
#ifdef CALM
	/* The leader has looked for runs under this member's sessions that are over, and found none. */
	:: d_step { look[m] && !leftOver(0, m) && !leftOver(1, m) -> look[m] = false }
#endif
#ifdef FOLLOW_AFTER
	:: d_step { owes == m -> follow(); owes = NOBODY }
#endif
	od
}

/* ---- a run at a member ---- */

#ifdef NO_READ_BACK
#define knows(r) told[r]
#define setTold(r) told[r] = (state[r] == RUNNING)
#else
#define knows(r) true
#define setTold(r) skip
#endif
#ifdef CANCELS
#define isAsked(r) asked[r]
#else
#define isAsked(r) false
#endif
#ifdef CANCEL_BY_SIGNAL
#define hears faults
#else
#define hears true
#endif

/* A run that was not begun is given back by a member that begins none, and so is one that is not wanted any more. */
#ifdef NO_READ_BACK
#define givesBack(r, m) (!begun[r] && stage[m] != WELL && told[r])
#else
#define givesBack(r, m) (!begun[r] && (stage[m] != WELL || isAsked(r)))
#endif
#ifdef FINISH_AT_DEADLINE
#define returned(r, m) (done[r] || context[r] == (m) && contextCur[r] && ending[r])
#elif defined(BEGIN_GIVEN_BACK)
#define returned(r, m) (!(context[r] == (m) && contextCur[r]) && (done[r] || givesBack(r, m)))
#else
#define returned(r, m) done[r]
#endif
#define mayFinish(r, m) (stage[m] != OUT && mineRunning(r, m) && returned(r, m))

inline begin(r, m) {
	printf("member %d: begins run %d, attempt %d\n", m, r, attempt[r]);
	if
	:: attempt[r] == 2 -> mark(6)
	:: else
	fi;
	for (n : 0 .. RUNS - 1) {
		if
		:: n != r && state[n] == OVER -> mark(7)
		:: n != r && state[n] == WAITING && attempt[n] == 1 -> mark(8)
		:: n != r && context[n] != NOBODY -> mark(17)
		:: else
		fi
	};
	n = 0;
#ifdef FOLLOWERS
	if
	:: r == 1 -> mark(15)
	:: else
	fi;
#endif
	guarantee(2, !begun[r]);
	guarantee(4, context[r] == NOBODY && alive(r) < LIMIT);
	begun[r] = true; context[r] = m; contextCur[r] = true; ending[r] = false
#if FAILOVERS > 0
	; keptBegun[r] = (kept && keptState[r] == RUNNING && keptAttempt[r] == attempt[r] -> true : keptBegun[r])
#endif
}

proctype Work(byte r, m) {
	do
	/* the leader assigns it to this member */
	:: d_step { mayAssign(r, m) -> printf("the leader assigns run %d to member %d\n", r, m); runAssign(r, m, true, (stage[m] != OUT), true, true, with[r]) }
	:: d_step { room && mayAssign(r, m) -> printf("the leader assigns run %d to member %d\n", r, m); giveUp(ASSIGN, r, m, 0, true, (stage[m] != OUT)) }
	/* it starts it, and may have been stopped since it last looked at its trust */
	:: d_step { stage[m] != OUT && state[r] == WAITING && with[r] == m && own[r] && (faults || stage[m] == WELL && wanted(r) && isDue(r)) ->
		printf("member %d: starts run %d\n", m, r); runStart(r, m, cur[r], true, true); setTold(r) }
	:: d_step { room && stage[m] != OUT && state[r] == WAITING && with[r] == m && own[r] -> printf("member %d: starts run %d\n", m, r); giveUp(START, r, m, 0, cur[r], true) }
	/* its row says that it runs, and the member is trusted now */
	:: d_step { trusted(m) && mineRunning(r, m) && !begun[r] && knows(r) -> begin(r, m) }
	:: d_step { context[r] == m && (faults || !endless || ending[r]) -> printf("member %d: run %d returns\n", m, r); stop(r) }
#ifdef TIMEOUTS
	:: d_step { context[r] == m && !ending[r] && faults -> printf("member %d: run %d has used up its time\n", m, r); ending[r] = true }
#endif
#ifdef CANCELS
	/* it reads its rows */
	:: d_step { context[r] == m && contextCur[r] && asked[r] && !ending[r] && stage[m] != ENDED && hears -> printf("member %d: cancels run %d\n", m, r); mark(13); ending[r] = true }
#endif
#ifndef BEGIN_GIVEN_BACK
	/* it will not begin it, and keeps to that: the statement that says so may be late */
	:: d_step { stage[m] != OUT && mineRunning(r, m) && givesBack(r, m) -> printf("member %d: will not begin run %d\n", m, r); mark(11); begun[r] = true; done[r] = true }
#endif
	/* it finishes it, or asks for another attempt */
	:: d_step { mayFinish(r, m) -> printf("member %d: finishes run %d\n", m, r); runFinish(r, m, cur[r], true, OVER) }
	:: d_step { mayFinish(r, m) && attempt[r] < ATTEMPTS && faults -> printf("member %d: gives run %d back\n", m, r); runFinish(r, m, cur[r], true, WAITING) }
	:: d_step { room && mayFinish(r, m) -> printf("member %d: finishes run %d\n", m, r); giveUp(FINISH, r, m, OVER, cur[r], true) }
	:: d_step { room && mayFinish(r, m) && attempt[r] < ATTEMPTS -> printf("member %d: gives run %d back\n", m, r); giveUp(FINISH, r, m, WAITING, cur[r], true) }
#ifdef FOLLOWERS
	:: d_step { mayFinish(r, m) && r == 0 && ran -> printf("member %d: run %d has succeeded\n", m, r); runFinish(r, m, cur[r], true, FOLLOWED) }
	:: d_step { room && mayFinish(r, m) && r == 0 && ran -> printf("member %d: run %d has succeeded\n", m, r); giveUp(FINISH, r, m, FOLLOWED, cur[r], true) }
#endif
	od
}

#ifdef TRANSACTIONS
/* ---- fenced transactions: of any attempt that has begun; it commits at any later moment ---- */

#ifdef COMMIT_BY_FENCE
#define accepted commitCur
#else
#define accepted (state[commitRun] == RUNNING && with[commitRun] == commitMember && attempt[commitRun] == commitAttempt && token[commitRun] == commitToken)
#endif

inline choose(r) {
	printf("a fenced transaction of run %d, attempt %d\n", r, attempt[r]);
	chosen = true; commitRun = r; commitAttempt = attempt[r]; commitMember = context[r]; commitCur = cur[r]; commitToken = token[r]
}

proctype Transaction() {
	do
	:: d_step { !chosen && context[0] != NOBODY && contextCur[0] -> choose(0) }
	:: d_step { !chosen && context[1] != NOBODY && contextCur[1] -> choose(1) }
	:: d_step { chosen && accepted -> printf("it commits\n");
		guarantee(3, commitToken == newest[commitRun] && state[commitRun] == RUNNING && attempt[commitRun] == commitAttempt) }
	od
}
#endif

/* ---- time ---- */

#if LATE == 1
#define sentBy(m) (way[0] != NONE && wayMember[0] == m)
#else
#define sentBy(m) (way[0] != NONE && wayMember[0] == m || way[1] != NONE && wayMember[1] == m)
#endif
/* The age of a session that nothing depends on stands still. */
#if RUNS == 2
#define matters(m) (with[0] == m || with[1] == m || !idle(m) || sentBy(m))
#else
#define matters(m) (with[0] == m || with[1] == m || with[2] == m || !idle(m) || sentBy(m))
#endif

inline stopEnding() {
	for (q : 0 .. RUNS - 1) {
		if
		:: context[q] != NOBODY && ending[q] -> printf("run %d: its work has stopped\n", q); stop(q)
		:: else
		fi
#if LOCK > 0
		; rest[q] = minus(rest[q], 1); due[q] = minus(due[q], 1)
#endif
	};
#if LOCK > 0
	jobRest = minus(jobRest, 1); locked = minus(locked, 1);
#endif
	q = 0
}

inline tick() {
	printf("tick\n");
	stopEnding();
	for (q : 0 .. MEMBERS - 1) {
		age[q] = (lease[q] == HELD && age[q] < TTL && matters(q) -> age[q] + 1 : age[q]);
		if
		:: (stage[q] == WELL || stage[q] == DRAINING) && age[q] >= TTL - GRACE -> endTrust(q)
		:: else
		fi
	};
	q = 0;
#if FAILOVERS > 0
	quarantine = minus(quarantine, 1)
#endif
}

#ifdef CALM
/* After the last fault, time has to pass for what stops, for what is due later, and for sessions that nobody keeps. */
#define expires(m) ((stage[m] == ENDED || stage[m] == OUT) && lease[m] == HELD && age[m] < TTL)
#if LOCK > 0
#define timeMatters (someStop || someExpire || jobRest > 0 || due[0] > 0 || due[1] > 0)
#else
#define timeMatters (someStop || someExpire)
#endif
#define someStop (context[0] != NOBODY && ending[0] || context[1] != NOBODY && ending[1])
#if MEMBERS > 2
#define someExpire (expires(0) || expires(1) || expires(2))
#else
#define someExpire (expires(0) || expires(1))
#endif
#endif

proctype Time() {
	do
	:: d_step { faults -> tick() }
#ifdef CALM
	/* heartbeats of those that are well get through */
	:: d_step { calm && timeout && timeMatters -> printf("tick\n");
		stopEnding();
		for (n : 0 .. MEMBERS - 1) { age[n] = (expires(n) -> age[n] + 1 : age[n]) };
		n = 0 }
#endif
	od
}

#ifdef CALM
/*
 * Guarantee 6, that no run is lost: at any moment the faults end for good. From then on each process does what it has to, in any
 * order, and when nothing is left to do, all runs are over. Guarantee 5 (LIVE) is that there is such an end.
 */
#ifdef FOLLOWERS
#define allOver (state[0] == OVER && (succeeded -> state[1] == OVER : state[1] == ABSENT))
#else
#define allOver (state[0] == OVER && state[1] == OVER)
#endif
proctype Calm() {
	d_step { !calm -> printf("no more faults\n"); calm = true };
	d_step { timeout && !timeMatters -> guarantee(6, allOver); finished = true }
}
#endif
#ifdef LIVE
ltl ends { [] (calm -> <> finished) }
#endif

/* ---- what befalls the database ---- */

#if FAILOVERS > 0
inline keep() {
	printf("the rows are kept as they are\n");
	kept = true; keptJob = jobToken;
	for (n : 0 .. RUNS - 1) {
		keptState[n] = state[n]; keptWith[n] = with[n]; keptAttempt[n] = attempt[n]; keptToken[n] = token[n]; keptCur[n] = cur[n];
		keptOwn[n] = own[n]; keptBegun[n] = begun[n]; keptDone[n] = done[n]; keptHere[n] = here[n]
	};
	n = 0
}

/* Statements that were given up do not reach the other server. */
inline failover() {
	printf("another server takes over, with the rows as they were kept\n");
	failovers--;
	for (n : 0 .. LATE - 1) {
		way[n] = NONE; wayRun[n] = 0; wayMember[n] = 0; wayTo[n] = 0; wayFresh[n] = false; wayCur[n] = false; wayOwn[n] = false; wayLead[n] = false
	};
	for (n : 0 .. RUNS - 1) {
		contextCur[n] = contextCur[n] && keptState[n] == RUNNING && state[n] == RUNNING && keptAttempt[n] == attempt[n];
		state[n] = keptState[n]; with[n] = keptWith[n]; attempt[n] = keptAttempt[n]; token[n] = keptToken[n]; cur[n] = keptCur[n];
		own[n] = keptOwn[n]; begun[n] = keptBegun[n]; done[n] = keptDone[n]; here[n] = false; floor[n] = 0
	};
#ifdef CLOCK_BEHIND
	jobToken = keptJob;
#else
	jobToken = newest[0]; /* a token is no less than the clock, which is past all tokens that were lost */
#endif
	for (n : 0 .. MEMBERS - 1) { checked[n] = false };
	quarantine = TTL;
	forget()
}

proctype Failover() {
	do
	:: d_step { !kept && failovers > 0 -> keep() }
	:: d_step { kept && failovers > 0 -> failover() }
	od
}
#endif

init {
	d_step {
		for (n : 0 .. MEMBERS - 1) {
			lease[n] = HELD; stage[n] = WELL;
#ifdef TOKEN_OF_SESSION
			sessions++; sessionToken[n] = sessions;
#endif
#if FAILOVERS > 0
			checked[n] = true
#endif
		};
		n = 0
	}
	atomic {
		run Change(); run Time();
		for (q : 0 .. LATE - 1) { run Server(q) };
		for (q : 0 .. RUNS - 1) { run Leader(q) };
		for (n : 0 .. MEMBERS - 1) {
			run Member(n);
			for (q : 0 .. RUNS - 1) { run Work(q, n) }
		};
		n = 0; q = 0;
#ifdef TRANSACTIONS
		run Transaction();
#endif
#ifdef CALM
		run Calm();
#endif
#if FAILOVERS > 0
		run Failover()
#endif
	}
}
