/*
 * The scheduler's takeover before the lease has run out: three replicas, the lease, the newest run of one job, and time.
 *
 * A follower that gets the hand-over signal takes the lease early. Here it may do so at any moment, since the signal may
 * lie. Two runs of the job still never overlap: the new term holds back. It leaves an open run of an older term alone for
 * as long as its holder may trust the lease. README.md says what the bounds are, and what each switch takes out.
 *
 * As in lease.pml, nothing holds an instant: a variable named after a time is what has passed of it, or is left, in ticks.
 * Heartbeats have no numbers: only which replicas have seen the newest one matters.
 */

#ifndef REPLICAS
#define REPLICAS 3
#endif
#ifndef TERMS
#define TERMS 3      /* replica 0's, and those that take over */
#endif
#define GRACE 1
#ifndef TTL
#define TTL 3
#endif
#ifndef TTL0
#define TTL0 TTL     /* replica 0's */
#endif
#ifndef TTL1
#define TTL1 TTL
#endif
#ifndef TTL2
#define TTL2 TTL
#endif
#ifndef FAILOVERS
#define FAILOVERS 0  /* another server takes over, with the rows of an earlier moment */
#endif

#define max(a, b) ((a) > (b) -> (a) : (b))
#define min(a, b) ((a) < (b) -> (a) : (b))
#define minus(a, b) ((a) > (b) -> (a) - (b) : 0)
#define ttl(i) ((i) == 0 -> TTL0 : ((i) == 1 -> TTL1 : TTL2))
#define TTLMAX max(max(TTL0, TTL1), TTL2)

#ifdef JOBLESS
#define hasJob(i) ((i) != 1) /* replica 1 has a release without the job */
#else
#define hasJob(i) true
#endif

#define NOBODY 255   /* a process that has died */

/* ---- the database ---- */

/* the lease row, and with it the fence row */
byte token = 1, owner = 0, rowTTL = TTL0;
bool released;
/* its heartbeat, compared with the one that the holder has confirmed */
#define SAME 0
#define NEWER 1      /* the answer is not there yet */
#define OLDER 2      /* a failover lost some */
byte beat;
/* the job's newest run: open under which token */
bool open;
byte under;

#if FAILOVERS > 0
byte failovers = FAILOVERS;
bool foreign;        /* the term in the row began on another server */
byte quarantine;
/* the moment that a failover goes back to */
bool kept, keptOpen;
byte keptToken, keptOwner, keptTTL, keptBeat, keptUnder;
bool lostEarly;      /* it would lose an early acquire */
#endif

/* statements under way: one for each replica */
#define NONE 0
#define ACQUIRE 1
#define TOOK 2       /* it has run, and its client does not know */
#define RENEW 3
#define RENEWED 4    /* the same */
#define RELEASE 5
byte way[REPLICAS];
byte wayLeft[REPLICAS]; /* what is left of the trust and of the hold that it gives */
byte wayHold[REPLICAS];
bool wayEarly[REPLICAS];
bool orphan[REPLICAS];  /* the process that sent it has died */

/* ---- the replicas ---- */

bool alive[REPLICAS];
#define CANDIDATE 0
#define LEADING 1    /* the term's context is alive */
#define DRAINING 2
byte term[REPLICAS], myToken[REPLICAS];
byte left[REPLICAS]; /* until work must have stopped; the context ends GRACE before */
byte hold[REPLICAS]; /* until it may recover runs of older terms, or say by a release that there are none */
bool claimed[REPLICAS], running[REPLICAS];
/* watch */
bool seen[REPLICAS]; /* the heartbeat in the row */
byte age[REPLICAS];  /* since then */
#ifdef HOLD_FROM_TERM
byte termAge[REPLICAS];
#endif
#ifdef WATCHED_TTL
byte watched[REPLICAS]; /* for how long it has been the same server */
#endif

byte newest = 1;     /* the largest token ever given */

/* Scratch, of no meaning between two steps. Spin searches breadth first only without hidden variables. */
#ifdef SHORTEST
#define hidden
#endif
hidden byte n, t;

/* An assertion names its guarantee, so that scripts/model can tell which one a run violates. */
#define guarantee(no, x) assert((x) || 0 == no)

/* REACH=n asks whether the step marked n is ever taken: a run that says so is an error, which is then what is wanted. */
#ifndef REACH
#define REACH 0
#endif
#define mark(n) assert(REACH != n)

inline clear(i) { way[i] = NONE; wayLeft[i] = 0; wayHold[i] = 0; wayEarly[i] = false; orphan[i] = false }

/* ---- statements, when the server runs them: what expects another row has been cleared by then ---- */

/* another: the row has another term, by the statement of replica i. */
inline another(i) {
	for (n : 0 .. REPLICAS - 1) {
		seen[n] = false; age[n] = 0;
#ifdef HOLD_FROM_TERM
		termAge[n] = 0;
#endif
		if
		:: n != i -> clear(n)
		:: else
		fi;
		if
		:: term[n] == CANDIDATE -> hold[n] = 0 /* nothing of its own to release any more */
		:: else
		fi
	};
	n = 0
}

#ifdef EARLY_OWN_TTL
#define written(i) ttl(i)
#else
#define written(i) (wayEarly[i] -> max(ttl(i), rowTTL) : ttl(i))
#endif

inline runAcquire(i) {
	printf("the server runs the acquire of replica %d: token %d, early %d\n", i, newest + 1, wayEarly[i]);
	if
	:: wayEarly[i] && owner != NOBODY && term[owner] == LEADING -> mark(1)
	:: else
	fi;
	if
	:: wayEarly[i] && open && under < token -> mark(2)
	:: else
	fi;
	if
	:: wayEarly[i] && rowTTL > ttl(i) -> mark(3)
	:: else
	fi;
#if FAILOVERS > 0
	if
	:: foreign -> mark(11)
	:: else
	fi;
	lostEarly = kept && (lostEarly || wayEarly[i]);
	foreign = false;
	t = max(token, newest) + 1; /* by the clock */
#else
	t = token + 1;
#endif
	guarantee(1, t > newest);
	token = t; newest = t; rowTTL = written(i); released = false; beat = SAME;
	owner = (orphan[i] -> NOBODY : i);
	another(i);
	if
	:: orphan[i] -> clear(i)
	:: else -> way[i] = TOOK; wayEarly[i] = false
	fi
}

inline runRenew(i) {
	printf("the server runs the renewal of replica %d\n", i);
	beat = NEWER;
#if FAILOVERS > 0
	keptBeat = (kept && keptToken == token -> OLDER : keptBeat);
#endif
#ifndef NO_ACQUIRE_HEARTBEAT
	for (n : 0 .. REPLICAS - 1) {
		seen[n] = false; age[n] = 0;
		if
		:: way[n] == ACQUIRE -> clear(n)
		:: else
		fi
	};
#endif
	n = 0;
	if
	:: orphan[i] || term[i] == CANDIDATE -> mark(7); clear(i)
	:: else -> way[i] = RENEWED
	fi
}

inline runRelease(i) {
	printf("the server runs the release of replica %d\n", i);
	released = true; hold[i] = 0; clear(i)
}

/* A claim of the present term may also run when its client has given up, or died. */
proctype Server() {
	do
	:: d_step { !open -> printf("the server runs a late claim under token %d\n", token); open = true; under = token }
	od
}

/* ---- Candidate ---- */

#if FAILOVERS == 0 || defined(EARLY_AFTER_FAILOVER)
#define sameServer(i) true
#elif defined(WATCHED_TTL)
#define sameServer(i) (watched[i] == TTLMAX)
#else
#define sameServer(i) (!foreign)
#endif
#if FAILOVERS > 0
#define free (released && quarantine == 0)
#else
#define free released
#endif
/* early or not */
#define takeable(i) (seen[i] && (free || !released && (age[i] >= rowTTL || sameServer(i))))

#ifdef NO_HOLD
#define stands(i) 0
#elif defined(HOLD_FROM_TERM)
#define stands(i) minus(rowTTL, termAge[i])
#elif defined(HOLD_OWN_TTL)
#define stands(i) minus(ttl(i), age[i])
#else
#define stands(i) minus(rowTTL, age[i])
#endif

inline sendAcquire(i) {
	printf("replica %d: sends an acquire: released %d, heartbeat since %d, TTL %d\n", i, released, age[i], rowTTL);
	way[i] = ACQUIRE; wayLeft[i] = ttl(i);
	wayEarly[i] = !released && age[i] < rowTTL;
	wayHold[i] = (wayEarly[i] -> stands(i) : 0)
}

/* begin: it hears of its acquire, or finds its name in the row. */
inline begin(i) {
	printf("replica %d: leads under token %d, holds back for %d\n", i, token, wayHold[i]);
	if
	:: wayHold[i] > 0 && wayLeft[i] < ttl(i) -> mark(4)
	:: else
	fi;
	term[i] = LEADING; myToken[i] = token; left[i] = wayLeft[i]; hold[i] = wayHold[i];
#ifdef HOLD_REPLACED_ONLY
	hold[i] = (open && under < token - 1 -> 0 : hold[i]);
#endif
#ifdef CLOSE_HELD
	open = false; under = 0;
#endif
	seen[i] = false; age[i] = 0; clear(i)
}

/* leave: it does not keep what it took. */
inline leave(i) {
	printf("replica %d: does not keep token %d\n", i, token);
	if
	:: wayHold[i] > 0 -> mark(5)
	:: else
	fi;
#ifndef RELEASE_LEFT_OVER
	hold[i] = wayHold[i];
#endif
	clear(i)
}

/* ---- Held ---- */

inline end(i) {
	printf("replica %d: the term of token %d ends\n", i, myToken[i]);
	term[i] = DRAINING; claimed[i] = false; left[i] = min(left[i], GRACE)
}

/* drop ends the renewals; a run may still be stopping. */
inline drop(i) {
	if
	:: running[i] -> mark(10)
	:: else
	fi;
	term[i] = CANDIDATE; claimed[i] = false; left[i] = (running[i] -> min(left[i], GRACE) : 0);
	hold[i] = (owner == i && myToken[i] == token && !released -> hold[i] : 0);
	myToken[i] = 0;
	if
	:: way[i] == RENEWED -> clear(i)
	:: else
	fi
}

/* confirm: it hears of its renewal, or finds the number in the row. */
inline confirm(i) {
	printf("replica %d: its renewal is confirmed\n", i);
	beat = SAME;
	left[i] = (term[i] == LEADING -> max(left[i], wayLeft[i]) : left[i]);
	clear(i)
}

inline sendRelease(i) {
	printf("replica %d: sends a release\n", i);
	clear(i); way[i] = RELEASE
}

/* What a release says: of all that its owner knows of, nothing runs. */
#ifdef RELEASE_KNOWN_JOBS
#define nothingOlder(i) (!open || under == myToken[i] || !hasJob(i))
#else
#define nothingOlder(i) (!open || under == myToken[i])
#endif
#ifdef RELEASE_HELD
#define mayRelease(i) true
#else
#define mayRelease(i) (hold[i] == 0 || myToken[i] == token && nothingOlder(i))
#endif
#ifdef RELEASE_OWN_ROW
#define mayGiveBack(i) true
#else
#define mayGiveBack(i) (hold[i] == 0)
#endif

/* ---- runs ---- */

#ifdef CLAIM_UNCOMPARED
#define current(i) true
#else
#define current(i) (myToken[i] == token)
#endif
#define mayStart(i) (term[i] == LEADING && left[i] > GRACE && hasJob(i) && !running[i])

inline claim(i) {
	guarantee(2, myToken[i] == token);
	open = true; under = myToken[i]; claimed[i] = true
}

inline start(i) {
	printf("replica %d: a run starts\n", i);
	running[i] = true; claimed[i] = false;
	for (n : 0 .. REPLICAS - 1) {
		guarantee(4, n == i || !running[n])
	};
	n = 0
}

inline stop(i) {
	printf("replica %d: its run ends\n", i);
	running[i] = false;
	left[i] = (term[i] == CANDIDATE -> 0 : left[i])
}

/* ---- a process ---- */

inline die(i) {
	printf("replica %d: dies\n", i);
	alive[i] = false; term[i] = CANDIDATE; myToken[i] = 0; left[i] = 0; hold[i] = 0; claimed[i] = false; running[i] = false;
	seen[i] = false; age[i] = 0;
#ifdef HOLD_FROM_TERM
	termAge[i] = 0;
#endif
#ifdef WATCHED_TTL
	watched[i] = 0;
#endif
	owner = (owner == i -> NOBODY : owner);
#if FAILOVERS > 0
	keptOwner = (keptOwner == i -> NOBODY : keptOwner);
#endif
	if
	:: way[i] == TOOK || way[i] == RENEWED -> clear(i)
	:: way[i] == ACQUIRE || way[i] == RENEW || way[i] == RELEASE -> orphan[i] = true; wayLeft[i] = 0; wayHold[i] = 0
	:: else
	fi
}

#define campaigns(i) (alive[i] && term[i] == CANDIDATE && !running[i])
#define sent(i) (way[i] == ACQUIRE || way[i] == RENEW || way[i] == RELEASE)

proctype Replica(byte i) {
	do
	/* Candidate */
	:: d_step { campaigns(i) && !seen[i] -> printf("replica %d: looks\n", i); seen[i] = true }
	:: d_step { campaigns(i) && way[i] == NONE && newest < TERMS && takeable(i) -> sendAcquire(i) }
	:: d_step { campaigns(i) && way[i] == TOOK && wayLeft[i] > GRACE -> begin(i) }
	:: d_step { campaigns(i) && way[i] == TOOK -> leave(i) }
	:: d_step { campaigns(i) && way[i] == NONE && owner == i && !released && mayGiveBack(i) -> mark(6); sendRelease(i) }
	/* Held */
	:: d_step { term[i] != CANDIDATE && way[i] == NONE && myToken[i] == token && !released && beat == SAME ->
		printf("replica %d: sends a renewal\n", i); way[i] = RENEW; wayLeft[i] = ttl(i) }
	:: d_step { term[i] != CANDIDATE && way[i] == RENEWED -> confirm(i) }
	:: d_step { term[i] != CANDIDATE && (myToken[i] != token || released || beat == OLDER) -> printf("replica %d: is replaced\n", i); drop(i) }
	:: d_step { term[i] == LEADING -> end(i) }
	:: d_step { term[i] == DRAINING && !running[i] && mayRelease(i) ->
		if
		:: hold[i] > 0 -> mark(8)
		:: else
		fi;
		t = (myToken[i] == token);
		drop(i);
		if
		:: t -> sendRelease(i)
		:: else
		fi }
	:: d_step { term[i] == DRAINING && !running[i] -> printf("replica %d: lets token %d expire\n", i, myToken[i]); drop(i) }
	/* runs: claimed, found under the own token, recovered, closed */
	:: d_step { mayStart(i) && !claimed[i] && current(i) && !open -> printf("replica %d: claims\n", i); claim(i) }
	:: d_step { mayStart(i) && !claimed[i] && myToken[i] == token && open && under == token -> printf("replica %d: finds its claim\n", i); claimed[i] = true }
	:: d_step { mayStart(i) && !claimed[i] && current(i) && open && under != myToken[i] && hold[i] == 0 ->
		printf("replica %d: recovers the run of token %d\n", i, under);
		if
		:: under < myToken[i] - 1 -> mark(9)
		:: else
		fi;
		claim(i) }
	:: d_step { mayStart(i) && !claimed[i] && current(i) && open && under != myToken[i] && hold[i] == 0 ->
		printf("replica %d: closes the run of token %d\n", i, under);
		guarantee(2, myToken[i] == token); open = false; under = 0 }
	:: d_step { mayStart(i) && claimed[i] -> start(i) }
	:: d_step { running[i] -> stop(i) }
	:: d_step { running[i] && term[i] != CANDIDATE && myToken[i] == token && open && under == token -> stop(i); open = false; under = 0 }
	/* the server runs what it has sent, or loses it */
	:: d_step { way[i] == ACQUIRE -> runAcquire(i) }
	:: d_step { way[i] == RENEW -> runRenew(i) }
	:: d_step { way[i] == RELEASE -> runRelease(i) }
	:: d_step { sent(i) -> printf("a statement of replica %d is lost\n", i); clear(i) }
	/* faults */
	:: d_step { alive[i] -> die(i) }
	:: d_step { !alive[i] -> printf("replica %d: is started again\n", i); alive[i] = true }
	od
}

/* ---- time ---- */

proctype Time() {
	do
	:: d_step {
		printf("tick\n");
		for (n : 0 .. REPLICAS - 1) {
			left[n] = minus(left[n], 1); hold[n] = minus(hold[n], 1);
			wayLeft[n] = minus(wayLeft[n], 1); wayHold[n] = minus(wayHold[n], 1);
			age[n] = (seen[n] -> min(age[n] + 1, TTLMAX) : 0);
#ifdef HOLD_FROM_TERM
			termAge[n] = (alive[n] -> min(termAge[n] + 1, TTLMAX) : 0);
#endif
#ifdef WATCHED_TTL
			watched[n] = (alive[n] -> min(watched[n] + 1, TTLMAX) : 0);
#endif
			if
			:: term[n] == LEADING && left[n] <= GRACE -> end(n)
			:: else
			fi;
			running[n] = running[n] && left[n] > 0
		};
#if FAILOVERS > 0
		quarantine = minus(quarantine, 1);
#endif
		n = 0 }
	od
}

/* ---- what befalls the database ---- */

#if FAILOVERS > 0
#ifdef LOST_EARLY
#define within true
#else
#define within (!lostEarly)
#endif

inline keep() {
	printf("the rows are kept as they are\n");
	kept = true; keptToken = token; keptOwner = owner; keptTTL = rowTTL; keptBeat = beat; keptOpen = open; keptUnder = under
}

/* Statements that are under way do not reach the other server. */
inline failover() {
	printf("another server takes over, with the rows as they were kept\n");
	failovers--;
	another(NOBODY);
	token = keptToken; owner = keptOwner; rowTTL = keptTTL; beat = keptBeat; open = keptOpen; under = keptUnder;
	released = false; foreign = true; quarantine = TTLMAX;
#ifdef WATCHED_TTL
	for (n : 0 .. REPLICAS - 1) { watched[n] = 0 };
	n = 0;
#endif
	kept = false; keptToken = 0; keptOwner = 0; keptTTL = 0; keptBeat = 0; keptOpen = false; keptUnder = 0; lostEarly = false
}

proctype Faults() {
	do
	:: d_step { !kept && failovers > 0 && !released -> keep() }
	:: d_step { kept && failovers > 0 && within -> failover() }
	od
}
#endif

init {
	d_step {
		for (n : 0 .. REPLICAS - 1) { alive[n] = true };
		n = 0;
		term[0] = LEADING; myToken[0] = 1; left[0] = TTL0
	}
	atomic {
		run Server(); run Time();
#if FAILOVERS > 0
		run Faults();
#endif
		for (n : 0 .. REPLICAS - 1) { run Replica(n) }
	}
}
