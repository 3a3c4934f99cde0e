// Package deploy deploys a service over and over while its jobs run: real workers are replaced one by one, each time by
// a version with other jobs, while people trigger, pause and resume. It accounts for every tick, trigger and run.
//
// `make test` does a few deployments, `make deployments` does them for an hour. Each kind of database has a service of its own.
package deploy
