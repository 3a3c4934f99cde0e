// Package store is the contract between cronlease and a database: what a store
// implements, and the rows that it exchanges. It is for the authors of stores. To
// use cronlease, take one that exists: mysqlstore, sqlitestore or memstore.
//
// A store that implements [Leases] is enough for package election. The conformance
// suites hold a store to every sentence of this package.
package store
