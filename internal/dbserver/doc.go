// Package dbserver runs private MariaDB and MySQL servers for tests and for trying things out.
//
// A [Server] has a data folder and a port of its own on 127.0.0.1 and is configured to be small, not to be fast in
// production. It can be stopped, killed, paused and started again on the same data, which is what tests of failures
// need. What the server has acknowledged survives Kill, though not a crash of the machine: nothing waits for the disk.
//
// A [Galera] is three of them that are one cluster, and a server's clock can be stepped ([Server.FakeClock]).
//
// Nothing is left behind: [Server.Close] ends the process and removes the folder, and on Linux the process also dies
// when the Go process that started it dies in any way.
package dbserver
