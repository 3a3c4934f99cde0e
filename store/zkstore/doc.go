// Package zkstore keeps leases, ledgers and locks in Apache ZooKeeper 3.5 or later, for packages election, scheduler and locks.
//
//	store, err := zkstore.Open("zk://user:password@h1:2181,h2:2181,h3:2181/billing")
//	s, err := scheduler.New(store, "billing")
//
// There is nothing to migrate: nodes appear when they are first used. [Open] says how a user logs in, and how to use TLS.
//
// # What it guarantees
//
// Each write is one transaction (multi), which compares the version of each node that it rests on. The servers of an
// ensemble agree on each transaction, in one order, and a majority has written it to disk before it is confirmed. So
// nothing that was confirmed is lost while a majority keeps its disks: neither by a crash nor by the election of
// another leader of the ensemble. That ends with forceSync=no, with disks that acknowledge what they have not written,
// and with servers whose data was deleted.
//
// A server may be behind, so that what it answers is old. No conclusion rests on such an answer. A reading of leases or locks ends with a
// transaction that compares each node which it read: so all of it was so at one instant, that of the transaction. What a write compares is
// read again after a transaction of this client, if it is not as expected: a server that has confirmed that shows everything before it.
//
// A transaction without an answer may have been carried out. The client does not send it again. What is still under way
// when its session ends is refused, and what comes late otherwise finds other versions. Versions begin anew where a
// node is deleted and created again. This store deletes the rows of locks and those of sessions, and parts of ledgers.
// Names of sessions are never used again, and neither are those of parts. Each write of a lock compares the floor too,
// which is written before locks are deleted.
//
// [Store.Do] lets a job write nodes of its own under the same rule. It compares the fence, which a new term writes and
// heartbeats do not, and the node of the term below it: that is deleted with the next term, and has the token in its
// name, so that it never comes back.
//
// # Ledgers
//
// A ledger is the node of its group and parts below it: 32 runs each, or some jobs, or entries of the archive, packed.
// A part never changes. What changes is written as a part of another revision, and the node of the group, which says
// what revisions count, takes it over. So a change is one transaction, which compares that node and the fence, or,
// where it is larger than a transaction may be, new parts that nothing names yet and then that one transaction. A term
// that was replaced meanwhile writes nothing, since the fence has another version. Of a replica that moves what was
// assigned to it, that is the fence of its session.
//
// A store keeps the ledgers in memory that it works on, but for what runs have printed. Each call begins with a
// transaction which proves that nothing has changed, and gives the instant of the call; otherwise it reads the parts
// that have. Then it is carried out in memory, and the parts that it has changed are written. Where another client has
// changed the ledger in between, this is done again. So calls are exactly as fast as two transactions where one leader
// writes, and slow where many clients write to one ledger at a time.
//
// A call that only reads does not insist on that proof: when others have come before it twice, it takes the instant of
// a transaction, and what the node of the group and its parts are after that. A leader leaves the last parts that it
// has replaced, so that such a reader finds what the node has named.
//
// # The clock
//
// ZooKeeper has no command that tells the time. It has a clock all the same: each transaction gets the time of the
// ensemble's leader, in milliseconds, and the nodes that it writes show it (mtime). So this store writes a node with
// each reading, and its mtime is the present. A lease has been renewed at the mtime of its node. No clock of a client
// is ever used, nor one of a server that follows.
//
// An instant is taken when the leader of the ensemble begins with the transaction: after the client has sent it, and
// before the client has the answer. So a holder that counts its trust from before it sends, and a follower that counts
// from after its reading, count as package lease wants it. Milliseconds cut off up to one of them. That makes the age
// of a heartbeat too large by less than one millisecond, where two instants of one clock are compared. Keep Drift times
// TTL (lease.Timing) above that: by default it is 10 ms for the shortest TTL.
//
// Another leader of the ensemble has another clock. Package lease assumes nothing about how clocks are set, but one thing: a clock may not
// step twice, in opposite directions, between two readings of a follower. Two changes of the leader could do that. So each leader of an
// ensemble is another server to the replicas: a random text in the node id names it. The transactions of a new leader have a new epoch (the
// upper half of the zxid), by which the first client that gets one finds out, and writes another text. From then on no reading before
// counts, and no replica takes a lease for one TTL. The holder goes on. Nothing else is lost: what was confirmed is there.
//
// The same wait protects a lease when the ensemble has lost its last writes, or all of its data: then the text is missing, or of another
// epoch, or a client gets zxids that are lower than before. A single server that is started again goes on in the same epoch. It is the same
// server to the replicas, unless it has lost something.
//
// Tokens are larger than all that were compared and seen, and no smaller than the microseconds of the clock. A transaction cannot write its
// own time, so it is that of a transaction right before. Where a token would be ahead of the clock by a part of a millisecond, as when two
// terms begin within one, the acquire waits for that to pass.
//
// # Sessions
//
// A store has one session, with [WithSessionTimeout], and goes to another server of the ensemble when its own does not
// answer for two thirds of the timeout. Choose one that is shorter than half of the leases' trust: 15 s leases go well
// with the default of 6 s. Sessions decide nothing: a lease does not end with one. Ephemeral nodes show that a leader's
// process is there, which is a hint, and receive notifications. When a session has expired, they come back with the
// next one. A client whose connections the ensemble refuses, as it has lost what the client has seen, is replaced after
// two timeouts. Names of servers are looked up for each connect.
//
// Watches are the signals: a node that each release writes wakes the replicas that wait for the lease, and another one
// a holder that is asked to resign. While nobody asks for anything, waiting sends nothing.
//
// # What it costs
//
// A heartbeat is a transaction and two or three reads, and a reading of a lease a transaction and two. A claim or a
// move is two transactions, whatever the number of its runs, and whatever is asked of a ledger otherwise is one. A
// replica that moves what was assigned to it reads the fence of its session in between.
//
// A lock passes to another process in one transaction, which also notifies that process. It then reads the row without
// a transaction: what a session shows never gets older, and the notification says that its server has the write. A
// process that is about to write a row reads it so too, since the write compares versions. What refuses a TryLock, or
// proves that a lock is held, is read by a transaction.
//
// Transactions are at most 900 kB, for servers with the default of jute.maxbuffer: a call that renews more than 1000
// leases, or writes locks whose queues are larger, is several of them, each atomic by itself.
//
// ZooKeeper keeps all nodes in memory, and so does a leader with its ledger: choose short histories (jobs.History). A
// write has a few bytes for each 32 runs that are kept. 10,000 runs are fine, as go test -bench . ./store/zkstore
// measures; a million belong into a database. The lists of all locks are read as a whole when locks are pruned or
// looked for.
//
// # Access
//
// The URL's user logs in by the scheme digest, which sends the password to the server as it is, or with auth=sasl by
// SASL with DIGEST-MD5, which does not, and for which servers need zookeeper.fips-mode=false since ZooKeeper 3.9. The
// nodes are for that user alone unless [WithACL] says otherwise. There is no Kerberos. A zks:// URL means TLS, also on
// top of [WithDialer], with a client's certificate where the URL names one.
//
// # Nodes
//
// All are below the path of the URL ([DefaultRoot] without one). A / in a name is a % in its node.
//
//	id                      the server that answers
//	clock                   written to read the clock
//	leases/GROUP            the lease (JSON)
//	fences/GROUP            owner and token that writes are compared with (JSON)
//	fences/GROUP/TOKEN      the last term of the group: what Do compares
//	free/GROUP              written with each release
//	asked/GROUP             written with each request, their number, and to wake the holder
//	present/GROUP~TOKEN~ID  ephemeral: the process of that term is connected
//	ledgers/GROUP           of a ledger: number of requests, pauses of the group, and the revisions of the parts that count (gob, deflate)
//	ledgers/GROUP/PART      runs (r), jobs (j), audit (u), terms (t), arguments (g), attempts (a), with number and revision (gob, deflate)
//	replicas/GROUP/OWNER    a replica that has told of itself, created when it first did; below it are its jobs, and seen, written when it last did
//	locks/NAME              version, holders and waiters of a lock (from 1 KiB on: deflate)
//	floor                   the highest version of a lock that was pruned
//	notify/ADDRESS          ephemeral: written to wake a process that waits for locks
package zkstore
