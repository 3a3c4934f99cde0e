//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// provide starts the servers, or looks at the given one, and returns what the environment of the command gets.
func provide(ctx context.Context, out io.Writer) (env []string, closeAll func() error, err error) {
	programs := map[string]string{}
	for _, kind := range dbserver.Kinds() {
		path, err := dbserver.Find(ctx, kind)
		if err != nil && !errors.Is(err, dbserver.ErrNoProgram) {
			return nil, nil, err
		}
		if err == nil {
			programs[kind] = path
			env = append(env, dbserver.VariableOf(kind)+"="+path)
		}
	}
	if dsn := os.Getenv(dbserver.GivenVariable); dsn != "" {
		kind, version, err := dbserver.Ask(ctx, dsn)
		if err != nil {
			return nil, nil, fmt.Errorf("use %s: %w", dbserver.GivenVariable, err)
		}
		fmt.Fprintf(out, "withdb: using the server of %s: %s %s\n", dbserver.GivenVariable, kind, version)
		return env, func() error { return nil }, nil
	}
	if programs[dbserver.MariaDB] == "" {
		return nil, nil, errors.New("no MariaDB server on this machine: run scripts/install-databases, or set " +
			dbserver.GivenVariable + " to use a running server")
	}
	if programs[dbserver.MySQL] == "" {
		line := strings.Repeat("*", 72)
		fmt.Fprintf(out, "\n  %s\n  *  NO MYSQL on this machine: MariaDB alone (see scripts/install-databases).\n  %s\n\n", line, line)
	}
	if programs[dbserver.NewMariaDB] == "" {
		fmt.Fprintln(out, "withdb: NO NEWER MARIADB on this machine (see scripts/install-databases)")
	}
	servers, err := startAll(ctx, programs, out)
	if err != nil {
		return nil, nil, err
	}
	for kind, s := range servers {
		env = append(env, dbserver.DSNVariableOf(kind)+"="+s.DSN(""))
	}
	return env, func() error { return closeServers(servers, out) }, nil
}

// startAll starts one server of each program, at the same time. They are returned by kind.
func startAll(ctx context.Context, programs map[string]string, out io.Writer) (map[string]*dbserver.Server, error) {
	begin := time.Now()
	servers := map[string]*dbserver.Server{}
	for kind, program := range programs {
		s, err := dbserver.New(ctx, program)
		if err != nil {
			return nil, err
		}
		servers[kind] = s
	}
	errs := make(chan error, len(servers))
	for _, s := range servers {
		go func() { errs <- s.Start(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return nil, errors.Join(err, closeServers(servers, io.Discard))
	}
	var names []string
	for _, kind := range slices.Sorted(maps.Keys(servers)) {
		names = append(names, kind+" on "+servers[kind].Addr())
	}
	fmt.Fprintf(out, "withdb: started %s in %v\n", strings.Join(names, ", "), time.Since(begin).Round(time.Millisecond))
	return servers, nil
}

func closeServers(servers map[string]*dbserver.Server, out io.Writer) error {
	var errs []error
	for kind, s := range servers {
		if s.Pid() == 0 && s.Log() != "" {
			fmt.Fprintf(out, "withdb: the %s server ended before the command did; its log ends with:\n%s\n", kind, s.Log())
		}
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
