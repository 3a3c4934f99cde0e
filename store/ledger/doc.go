// Package ledger has the rules of the ledger for the authors of stores: what a claim, a move, a follower, a verdict, a
// pause, a trigger, a backfill, a cancel request, a prune, a pass-over, a forgotten job and a term's note may change. They
// are written once, over rows in memory. Only what is hot has them a second time, in the SQL of mysqlstore and the scripts
// of redisstore, and so has the pruning of sqlitestore.
//
// Like package store it is internal: it is for the stores of this module, and may change with each release, without
// notice in the versioning. Pin a release if you write a store of your own.
//
// A store implements [Rows], and embeds the [Ledger] that [New] makes of them. There are two ways to do so:
//
//   - A database that keeps documents stores the [Content] of a group, as one document or cut into several. A [Reads]
//     then answers all that only reads. Package examples/ownstore does so, on files.
//   - A database that has tables reads the rows that a call needs ([Need]) into a [Tx], writes those that the rules have
//     put, and reads by queries of its own. Package sqlitestore does so.
//
// Either way storetest.Rows shows that the store keeps what it is given.
package ledger
