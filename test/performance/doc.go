// Package performance has the benchmarks behind docs/performance.md that need several
// processes, a look at what goes over the wire, or a peer to compare with:
//
//	make bench PACKAGES=./test/performance TESTFLAGS='-bench Kill/idle -benchtime 20x'
package performance
