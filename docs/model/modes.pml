/*
 * A group that changes its mode while it runs: from a leader that runs all jobs to runs spread over members, and back; beside
 * replicas of a release that does not know the second mode.
 *
 * This is the design of what is to come. No code follows it yet.
 *
 * Each mode has a lease of its own. The one of the plain mode is the group's lease, which all releases know. While runs are spread it is
 * barred: no process holds it, and it is not released, so that no release takes it; the leader contends for the second lease. In
 * plain mode the second one is barred. The change is one statement of the leader: it bars its own lease, moves its fence,
 * opens the other, and compares that no run is under way in its mode. README.md says what each switch takes out.
 *
 * There is no time: what it is for is in takeover.pml and spread.pml. Where they wait for a TTL, a step compares here what that
 * makes true: a run of a replaced term is recovered once its context has ended, and a session is buried once nothing runs under it.
 * The lease of a leader may be taken at any moment.
 */

#define REPLICAS 3
#define OLD 2        /* the replica whose release knows the plain mode alone */
#define RUNS 2       /* of one job, overlap: forbid */
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#define NOBODY 3
#define BARRED 4

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

#define PLAIN 0
#define SPREAD 1
byte holder[2];      /* of the lease of each mode: a replica, NOBODY or BARRED */
bool wish = PLAIN;   /* the mode that users have asked for */
#ifdef MARK_ONLY
bool modeMark = PLAIN; /* instead of barred leases: what new releases look at before they lead */
#endif

#define ABSENT 0
#define WAITING 1
#define RUNNING 2
#define OVER 3
byte state[RUNS], with[RUNS] = NOBODY;
bool session[RUNS];  /* it is assigned to, or runs under, a session: else a term */
bool cur[RUNS];      /* which is the one in its fence row */
bool own[RUNS];      /* which the replica's process has */
byte attempt[RUNS];

/* a statement that its client has given up */
#define NONE 0
#define CLAIM 1
#define ASSIGN 2
#define START 3
#define FINISH 4
#define RECOVER 5
#define CHANGE 6
byte way, wayRun, wayReplica, wayTo;
byte wayFence;       /* it compares: the fence of PLAIN or SPREAD, or */
#define SESSION 2
#define NO_FENCE 3
bool wayCur;         /* which has not moved since */
bool wayFresh;       /* nor was the run's row written */

/* ---- the replicas ---- */

bool alive[REPLICAS];
#define FOLLOWS 2
byte leads[REPLICAS];   /* the mode of its term, while its context is alive */
bool member[REPLICAS];  /* it has a session */
byte context[RUNS] = NOBODY; /* the replica where the run's context is alive */
bool contextCur[RUNS];  /* the row still has its attempt */
bool ofSession[RUNS];   /* and it ends with the session, else with the term */
bool begun[RUNS], done[RUNS];

#ifdef CALM
bool calm;
#define faults (!calm)
#else
#define faults true
#endif

#ifdef SHORTEST
#define hidden
#endif
hidden byte n, q, sKind, sRun, sReplica, sTo, sFence, sCur;

/* ---- what changes ---- */

inline clear() { way = NONE; wayRun = 0; wayReplica = 0; wayTo = 0; wayFence = 0; wayCur = false; wayFresh = false }

/* A statement that will find another row is cleared at once, as if it were lost. */
inline tidy() {
	if
	:: way != NONE && !(wayCur && wayFresh) -> clear()
	:: else
	fi
}

inline giveUp(kind, r, i, to, fence) {
	printf("  given up\n");
	way = kind; wayRun = r; wayReplica = i; wayTo = to; wayFence = fence; wayCur = true; wayFresh = true
}
#define room (way == NONE && faults)

inline written(r) {
	wayFresh = (way != CHANGE && wayRun == r -> false : wayFresh);
	tidy()
}

inline vacate(r) {
	with[r] = NOBODY; session[r] = false; cur[r] = false; own[r] = false; begun[r] = false; done[r] = false; contextCur[r] = false
}

/* moves: the fence of a mode's lease has another token. */
inline moves(mode) {
	for (n : 0 .. RUNS - 1) { cur[n] = cur[n] && (mode == SPREAD || session[n]) };
	n = 0;
	wayCur = wayCur && wayFence != mode;
	tidy()
}

inline stop(r) {
	done[r] = done[r] || contextCur[r];
	context[r] = NOBODY; contextCur[r] = false; ofSession[r] = false
}

/* drops: the replica's process has its term, or its session, no more, and nothing runs under it. */
inline drops(i, aSession) {
	for (q : 0 .. RUNS - 1) {
		if
		:: context[q] == i && ofSession[q] == aSession -> stop(q)
		:: else
		fi;
		if
		:: with[q] == i && session[q] == aSession -> own[q] = false; done[q] = false
		:: else
		fi
	};
	q = 0
}

/* ---- statements, when the server runs them: what expects other rows has been cleared by then ---- */

#define open(r) (state[r] == ABSENT || state[r] == WAITING)
#define none(aSession, s) (!(state[0] == s && session[0] == aSession) && !(state[1] == s && session[1] == aSession))

/* runClaim: a term starts a run, or its next attempt, in its own process. */
inline runClaim(r, i) {
	printf("  run %d: running under the term of replica %d\n", r, i);
	guarantee(2, holder[PLAIN] != BARRED);
	guarantee(4, state[1 - r] != RUNNING);
	vacate(r);
	state[r] = RUNNING; with[r] = i; cur[r] = true; own[r] = (leads[i] == PLAIN); attempt[r]++;
	written(r)
}

/* runAssign: to NOBODY takes it back. */
inline runAssign(r, i) {
	printf("  run %d: waits, assigned to %d (%d: to nobody)\n", r, i, NOBODY);
	guarantee(2, holder[SPREAD] != BARRED);
	vacate(r);
	state[r] = WAITING; with[r] = i; session[r] = (i != NOBODY); cur[r] = session[r];
	if
	:: i != NOBODY -> own[r] = member[i]
	:: else
	fi;
	written(r)
}

inline runStart(r, i) {
	printf("  run %d: running under the session of replica %d\n", r, i);
	guarantee(2, holder[SPREAD] != BARRED);
	guarantee(4, state[1 - r] != RUNNING);
	state[r] = RUNNING; attempt[r]++; contextCur[r] = false;
	written(r)
}

inline attemptEnds(r, to) {
	printf("  run %d: in state %d\n", r, to);
	vacate(r);
	state[r] = to; attempt[r] = (to == OVER -> 0 : attempt[r]);
	written(r)
}

/* runRecover: a leader ends the attempt of a term, or of a session, that is over. */
inline runRecover(r, to) {
	printf("  run %d: recovered\n", r);
	guarantee(7, context[r] == NOBODY || !contextCur[r]);
	attemptEnds(r, to)
}

/* Nothing is under way in this mode: no run, and none that a member may start. */
#ifdef CHANGE_UNDRAINED
#define seemsDone(mode) true
#elif defined(CHANGE_ASSIGNED)
#define seemsDone(mode) none(mode == SPREAD, RUNNING)
#else
#define seemsDone(mode) (none(mode == SPREAD, RUNNING) && none(true, WAITING))
#endif
#ifdef CHANGE_BY_MEMORY
#define isDone(mode) true /* its sender has read it */
#else
#define isDone(mode) seemsDone(mode)
#endif

/* runChange ends this mode. */
inline runChange(mode) {
	if
	:: isDone(mode) ->
		printf("  the mode is %d\n", 1 - mode);
		if
		:: mode == PLAIN && (state[0] == WAITING || state[1] == WAITING) -> mark(12)
		:: mode == SPREAD && (state[0] == WAITING || state[1] == WAITING) -> mark(13)
		:: else
		fi;
#ifdef MARK_ONLY
		holder[mode] = NOBODY; modeMark = 1 - mode;
#else
		holder[mode] = BARRED; holder[1 - mode] = NOBODY;
#endif
		for (n : 0 .. RUNS - 1) {
			guarantee(7, mode == SPREAD || context[n] == NOBODY || !contextCur[n] || ofSession[n]) /* no run loses its term */
		};
		n = 0;
#ifndef CHANGE_KEEPS_FENCE
		moves(mode)
#endif
	:: else -> printf("  it changes nothing\n")
	fi
}

proctype Server() {
	do
	:: d_step { way != NONE ->
		printf("the server runs late statement %d, of run %d\n", way, wayRun);
		sKind = way; sRun = wayRun; sReplica = wayReplica; sTo = wayTo;
		clear();
		if
		:: sKind == CLAIM -> mark(1); runClaim(sRun, sReplica)
		:: sKind == ASSIGN -> mark(2); runAssign(sRun, sReplica)
		:: sKind == START -> mark(3); runStart(sRun, sReplica)
		:: sKind == FINISH -> mark(4); attemptEnds(sRun, sTo)
		:: sKind == RECOVER -> mark(5); runRecover(sRun, sTo)
		:: sKind == CHANGE -> mark(6); runChange(sTo)
		fi;
		sKind = 0; sRun = 0; sReplica = 0; sTo = 0 }
	:: d_step { way != NONE -> printf("a late statement is lost\n"); clear() }
	od
}

/* ---- leases, sessions, processes ---- */

#define isLeader(i, mode) (leads[i] == mode && holder[mode] == (i))
#define led(mode) (isLeader(0, mode) || isLeader(1, mode) || isLeader(2, mode))
#ifdef MARK_ONLY
#define knowsMode(i, mode) (i == OLD || modeMark == mode)
#else
#define knowsMode(i, mode) true
#endif
#ifdef CHECK_AT_START
#define mayBegin(i) (i != OLD || modeMark == PLAIN)
#else
#define mayBegin(i) true
#endif
#define mayTake(i, mode) (alive[i] && leads[i] == FOLLOWS && holder[mode] != BARRED && (i != OLD || mode == PLAIN) && knowsMode(i, mode) && (faults || !led(mode)))
#define mayChange(i) (alive[i] && i != OLD && leads[i] != FOLLOWS && holder[leads[i]] == (i) && leads[i] != wish && seemsDone(leads[i]))
/* Nothing has the session that the replica had, or will have it. */
#define buried(i) (!(with[0] == i && session[0] && cur[0]) && !(with[1] == i && session[1] && cur[1]) && !(way == START && wayReplica == i))

inline take(i, mode) {
	printf("replica %d: leads in mode %d\n", i, mode);
	if
	:: led(mode) -> mark(7)
	:: i == OLD -> mark(8)
	:: mode == PLAIN && (state[0] == WAITING || state[1] == WAITING) -> mark(9)
	:: else
	fi;
	holder[mode] = i; leads[i] = mode;
	moves(mode)
}

proctype Replica(byte i) {
	do
	:: d_step { mayTake(i, PLAIN) -> take(i, PLAIN) }
	:: d_step { mayTake(i, SPREAD) -> take(i, SPREAD) }
	:: d_step { leads[i] != FOLLOWS && (faults || holder[leads[i]] != i) -> printf("replica %d: its term is over\n", i); drops(i, false); leads[i] = FOLLOWS }
	:: d_step { mayChange(i) -> printf("replica %d: changes the mode\n", i); q = leads[i]; runChange(q); q = 0 }
	:: d_step { room && mayChange(i) -> printf("replica %d: changes the mode\n", i); giveUp(CHANGE, 0, i, leads[i], leads[i]) }
	:: d_step { alive[i] && i != OLD && !member[i] && buried(i) -> printf("replica %d: opens a session\n", i); member[i] = true }
	:: d_step { member[i] && faults -> printf("replica %d: its session is over\n", i); drops(i, true); member[i] = false }
	/* by any other one */
	:: d_step { !member[i] && !buried(i) -> printf("replica %d: its session is buried\n", i);
		for (n : 0 .. RUNS - 1) { cur[n] = cur[n] && !(with[n] == i && session[n]) };
		n = 0;
		wayCur = wayCur && !(way == START && wayReplica == i);
		tidy() }
	:: d_step { alive[i] && faults -> printf("replica %d: dies\n", i);
		drops(i, false); drops(i, true);
		alive[i] = false; member[i] = false; leads[i] = FOLLOWS }
	:: d_step { !alive[i] && mayBegin(i) && (faults || i != OLD) -> printf("replica %d: is started\n", i); alive[i] = true }
	od
}

/* ---- runs ---- */

/* The leader of the plain mode leaves a run alone while a term before it may be trusted. Of sessions its release may know nothing. */
#define mayRecover(r, i) (isLeader(i, PLAIN) && state[r] == RUNNING && (session[r] || !own[r]))
#define mayTakeUp(r) (led(SPREAD) && state[r] == RUNNING && session[r] && !cur[r])
/* A statement without an answer counts as made. */
#define unclear(kind, r) (way == kind && wayRun == r && wayReplica != NOBODY)
#define mayClaim(r, i) (isLeader(i, PLAIN) && open(r) && attempt[r] < ATTEMPTS && state[1 - r] != RUNNING && !unclear(CLAIM, 1 - r))
#define placed(r) (state[r] == RUNNING || state[r] == WAITING && with[r] != NOBODY)
#define mayAssign(r, i) (led(SPREAD) && open(r) && attempt[r] < ATTEMPTS && member[i] && (with[r] != i || !cur[r]) && !placed(1 - r) && !unclear(ASSIGN, 1 - r) && (faults || with[r] == NOBODY || !cur[r]))
#define mayTakeBack(r) (led(SPREAD) && state[r] == WAITING && with[r] != NOBODY)
#define itsOwn(r, i) (with[r] == i && own[r])
#define mayStart(r, i) (member[i] && state[r] == WAITING && itsOwn(r, i) && cur[r])
#define mayFinish(r, i) (state[r] == RUNNING && itsOwn(r, i) && (done[r] || !begun[r] && session[r] && faults) && (session[r] || isLeader(i, PLAIN)))

inline begin(r, i) {
	printf("replica %d: begins run %d, attempt %d\n", i, r, attempt[r]);
	if
	:: session[r] && attempt[r] == 2 -> mark(10)
	:: !session[r] && attempt[r] == 2 && i == OLD -> mark(11)
	:: else
	fi;
	guarantee(2, !begun[r]);
	guarantee(4, context[0] == NOBODY && context[1] == NOBODY);
	begun[r] = true; context[r] = i; contextCur[r] = true; ofSession[r] = session[r]
}

proctype Work(byte r, i) {
	do
	/* plain */
	:: d_step { mayClaim(r, i) -> printf("replica %d: claims run %d\n", i, r); runClaim(r, i) }
	:: d_step { room && mayClaim(r, i) -> printf("replica %d: claims run %d\n", i, r); giveUp(CLAIM, r, i, 0, PLAIN) }
	:: d_step { mayRecover(r, i) && attempt[r] < ATTEMPTS -> printf("replica %d: recovers run %d\n", i, r); runRecover(r, WAITING) }
	:: d_step { mayRecover(r, i) -> printf("replica %d: closes run %d\n", i, r); runRecover(r, OVER) }
	:: d_step { room && mayRecover(r, i) -> printf("replica %d: closes run %d\n", i, r); giveUp(RECOVER, r, i, OVER, PLAIN) }
	/* spread: the leader */
	:: d_step { mayAssign(r, i) -> printf("run %d is assigned to replica %d\n", r, i); runAssign(r, i) }
	:: d_step { room && mayAssign(r, i) -> printf("run %d is assigned to replica %d\n", r, i); giveUp(ASSIGN, r, i, 0, SPREAD) }
	/* the member */
	:: d_step { mayStart(r, i) -> printf("replica %d: starts run %d\n", i, r); runStart(r, i) }
	:: d_step { room && mayStart(r, i) -> printf("replica %d: starts run %d\n", i, r); giveUp(START, r, i, 0, SESSION) }
	/* both */
	:: d_step { state[r] == RUNNING && itsOwn(r, i) && !begun[r] -> begin(r, i) }
	:: d_step { context[r] == i -> printf("replica %d: run %d returns\n", i, r); stop(r) }
	:: d_step { mayFinish(r, i) -> printf("replica %d: finishes run %d\n", i, r); attemptEnds(r, OVER) }
	:: d_step { mayFinish(r, i) && attempt[r] < ATTEMPTS && faults -> printf("replica %d: gives run %d back\n", i, r); attemptEnds(r, WAITING) }
	:: d_step { room && mayFinish(r, i) && done[r] -> printf("replica %d: finishes run %d\n", i, r); giveUp(FINISH, r, i, OVER, (session[r] -> NO_FENCE : PLAIN)) }
	:: d_step { room && mayFinish(r, i) && done[r] && attempt[r] < ATTEMPTS -> printf("replica %d: gives run %d back\n", i, r); giveUp(FINISH, r, i, WAITING, (session[r] -> NO_FENCE : PLAIN)) }
	od
}

/* What the leader of the spread mode does with a run, whichever replica it is. */
proctype Leader(byte r) {
	do
	:: d_step { mayTakeBack(r) && (faults || wish == PLAIN) -> printf("the leader takes run %d back\n", r); runAssign(r, NOBODY) }
	:: d_step { room && mayTakeBack(r) -> printf("the leader takes run %d back\n", r); giveUp(ASSIGN, r, NOBODY, 0, SPREAD) }
	:: d_step { mayTakeUp(r) && attempt[r] < ATTEMPTS -> printf("the leader takes run %d up\n", r); runRecover(r, WAITING) }
	:: d_step { mayTakeUp(r) -> printf("the leader ends run %d\n", r); runRecover(r, OVER) }
	:: d_step { room && mayTakeUp(r) -> printf("the leader ends run %d\n", r); giveUp(RECOVER, r, NOBODY, OVER, SPREAD) }
	od
}

proctype Users() {
	do
	:: d_step { faults -> printf("users ask for the other mode\n"); wish = 1 - wish }
	od
}

#ifdef CALM
/* Guarantee 6, that no run is lost: at any moment the faults end for good, and when nothing is left to do, all runs are over. */
proctype Calm() {
	d_step { !calm -> printf("no more faults\n"); calm = true };
	d_step { timeout -> guarantee(6, state[0] == OVER && state[1] == OVER) }
}
#endif

init {
	d_step {
#ifdef MARK_ONLY
		holder[PLAIN] = NOBODY; holder[SPREAD] = NOBODY;
#else
		holder[PLAIN] = NOBODY; holder[SPREAD] = BARRED;
#endif
		for (n : 0 .. REPLICAS - 1) { alive[n] = true; leads[n] = FOLLOWS };
		n = 0
	}
	atomic {
		run Server(); run Users(); run Leader(0); run Leader(1);
		for (n : 0 .. REPLICAS - 1) { run Replica(n); run Work(0, n); run Work(1, n) };
		n = 0;
#ifdef CALM
		run Calm()
#endif
	}
}
