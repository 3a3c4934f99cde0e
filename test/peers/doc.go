// Package peers measures locks in Redis and ZooKeeper beside the libraries that people use there, in turns, so that a moment in which the
// machine is busy hits all of them:
//
//	make bench PACKAGES=./test/peers
//
// Each library has a pool with a connection for each worker, and a client of its own. The servers run on this machine, alone.
package peers
