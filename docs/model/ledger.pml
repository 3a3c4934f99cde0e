/*
 * The ticks of one job over several terms: claims that are late, repeated or lost, pruning, pauses, and a schedule whose
 * text changes from term to term. No time but that ticks come due, one after the other.
 *
 * fence.pml has the locks of a claim; here a statement is one step. README.md says what each switch takes out.
 */

/* An assertion names its guarantee, so that scripts/model can tell which one a run violates. */
#define guarantee(no, x) assert((x) || 0 == no)

#ifndef TICKS
#define TICKS 2
#endif
#ifndef TERMS
#define TERMS 2
#endif
/* Claims that a term sends, repetitions included. */
#ifndef SENDS
#define SENDS 3
#endif

#define smaller(a, b) ((a) < (b) -> (a) : (b))
#define larger(a, b) ((a) > (b) -> (a) : (b))

/* ---- the database ---- */

byte token = 1;

/* rows by tick; there is none while the state is 0 */
#define RUNNING 1
#define OVER 2
byte state[TICKS + 1], owner[TICKS + 1];
byte newest;         /* tick that has, or had, a row: pruning leaves it */
bool paused;

byte text, since;    /* the schedule: its text, and the tick after which it rules */
byte beat, previous; /* ticks due at the last heartbeat of this term, and of the term before */

/* ---- what has happened ---- */

byte now;                 /* ticks 1 to now are due */
bool decided[TICKS + 1];  /* it had a row: it was run, or recorded as skipped */
bool ended[TICKS + 1];    /* its run came to an end */

/* ---- claims on their way: the slots of term k begin at (k - 1) * SENDS ---- */

#define SENT 1
#define INSERTED 2
#define REFUSED 3
byte wayState[TERMS * SENDS], wayTick[TERMS * SENDS];
bool waySkips[TERMS * SENDS];

inline decide(t) {
	if
	:: t > 1 -> guarantee(6, decided[t - 1])  /* the cursor passes no tick that has no row */
	:: else
	fi;
	decided[t] = true
}

/*
 * The server applies a claim that was sent, at any time later, or never. What a term has sent that is over is left out:
 * the comparison of the token, which fence.pml looks at, refuses it.
 */
proctype Server() {
	byte i, t;
	bool ok;
end:	do
	:: atomic {
		token > 0 ->
		i = (token - 1) * SENDS;
		do
		:: i < token * SENDS && wayState[i] == SENT -> break
		:: i < token * SENDS - 1 -> i++
		:: else -> goto none
		od;
		t = wayTick[i];
		ok = state[t] == 0;
#ifndef CLAIM_ANY_TICK
		ok = ok && t > newest;
#endif
#ifndef CLAIM_WHILE_PAUSED
		ok = ok && (!paused || waySkips[i]);
#endif
		if
		:: ok ->
			guarantee(2, !ended[t]);                /* a tick that was run does not come back */
			guarantee(6, !paused || waySkips[i]);   /* a pause that has returned stops the next tick */
			decide(t);
			owner[t] = token;
			newest = larger(newest, t);
			if
			:: waySkips[i] -> state[t] = OVER; ended[t] = true
			:: else -> state[t] = RUNNING
			fi;
			wayState[i] = INSERTED
		:: else -> wayState[i] = REFUSED
		fi;
		wayTick[i] = 0; waySkips[i] = false;
none:		i = 0; t = 0; ok = false }
	od
}

proctype Clock() {
	do
	:: now < TICKS -> now++
	:: else -> break
	od
}

/* The acquire, whenever it comes. It counts as the new term's first heartbeat. */
proctype Takeovers() {
	byte i;
	do
	:: atomic { token < TERMS ->
			previous = beat; beat = now;
			for (i : 0 .. (TERMS * SENDS - 1)) {
				wayState[i] = 0; wayTick[i] = 0; waySkips[i] = false
			}
			i = 0; token++ }
	:: else -> break
	od
}

#ifdef PAUSES
proctype Operator() {
	paused = true;
	paused = false
}
#endif

/* ---- a term ---- */

/*
 * Declare: a schedule that has changed rules from the end of the term before, or from right before the first tick of the
 * one before it that was due by then and has no row.
 */
inline declare(version) {
	if
	:: text != version ->
#ifdef SCHEDULE_FROM_NOW
		since = now;
#elif defined(SCHEDULE_FROM_HEARTBEAT)
		since = larger(since, previous);
#else
		since = larger(since, smaller(previous, larger(newest, since)));
#endif
		text = version
	:: else
	fi
}

proctype Term(byte k, version) {
	byte next, sends, at, t;
end:	token >= k;
	if
	:: atomic { token == k -> declare(version); next = larger(newest, since) + 1 }
	:: goto done /* it dies before that */
	fi;
	/* what an earlier term left running is run again, or given up: either way it comes to its end */
	atomic {
		token == k ->
		t = 1;
		do
		:: t <= TICKS ->
			if
			:: state[t] == RUNNING && owner[t] != k -> guarantee(2, !ended[t]); state[t] = OVER; ended[t] = true
			:: else
			fi;
			t++
		:: else -> break
		od;
		t = 0
	}
end2:	do
	:: atomic { token == k && beat < now -> beat = now } /* heartbeats do not wait for claims */
	:: atomic { next <= now && sends < SENDS ->
		at = (k - 1) * SENDS + sends; sends++;
		wayTick[at] = next; waySkips[at] = paused; wayState[at] = SENT };
		if
		:: atomic { wayState[at] == INSERTED -> next++ }
		:: atomic { wayState[at] == REFUSED ->
			if
			:: state[next] != 0 && owner[next] == k -> next++ /* an earlier repetition was not lost */
			:: state[next] == 0 && token == k && next > newest /* it was paused: claim it as it is to be now */
			:: else -> break
			fi }
		:: /* no answer: the same claim again */
#ifdef UNCLEAR_IS_DONE
			next++
#else
			skip
#endif
		fi
	/* a run comes to its end */
	:: atomic { token == k && newest > 0 && state[newest] == RUNNING && owner[newest] == k && next > newest ->
		state[newest] = OVER; ended[newest] = true }
	/* pruning */
	:: atomic { token == k && newest > 1 && state[newest - 1] == OVER -> state[newest - 1] = 0; owner[newest - 1] = 0 }
	:: token > k -> break
	od;
done:	skip
}

init {
	atomic {
		run Server(); run Clock(); run Takeovers();
#ifdef PAUSES
		run Operator();
#endif
#ifdef CHANGES
		run Term(1, 0); run Term(2, 1);
#if TERMS > 2
		run Term(3, 2)
#endif
#else
		run Term(1, 0); run Term(2, 0);
#if TERMS > 2
		run Term(3, 0)
#endif
#endif
	}
}
