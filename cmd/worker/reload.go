package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func newReload() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "reload",
		Short: "Have the running workers of this machine read the configuration again",
		Long: `Have the running workers of this machine read the configuration again, and say
what that changes. Each worker that runs with the file first checks it, with the
variables of its own environment. If one finds a fault, all faults are shown,
nothing has changed, and the exit code is 1. Otherwise each applies all of it.

Jobs may be added, changed and removed. What runs goes on as it began. All other
settings are kept by a running worker: a change of one is refused, and needs
a restart. SIGHUP does the same for one worker, and its log says the outcome.

Run it as the user of the workers, or as root, and on each machine.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return reloadWorkers(command, path) },
	}
	command.Flags().StringVar(&path, "config", defaultConfig, "configuration file, by the path that the workers were started with")
	return command
}

func reloadWorkers(command *cobra.Command, path string) error {
	workers, err := runningWorkers(path)
	if err != nil {
		return err
	}
	if len(workers) == 0 {
		if _, err := loadConfig(command, path); err != nil {
			return err
		}
		return fmt.Errorf("no worker of this machine runs with %s: give the path that it was started with", path)
	}
	pids := slices.Sorted(maps.Keys(workers))
	for _, request := range []string{requestCheck, requestReload} {
		var wrong []error
		for _, pid := range pids {
			a, err := ask(workers[pid], request)
			switch {
			case err != nil:
				wrong = append(wrong, fmt.Errorf("worker %d does not answer: %w", pid, err))
			case !a.OK:
				wrong = append(wrong, fmt.Errorf("worker %d refuses the configuration:\n%s", pid, a.Text))
			case request == requestReload:
				if _, err := fmt.Fprintf(command.OutOrStdout(), "worker %d: %s\n", pid, printableText(a.Text)); err != nil {
					return err
				}
			}
		}
		if wrong != nil {
			return errors.Join(wrong...)
		}
	}
	return nil
}

// ask sends a request to a worker.
func ask(socket, request string) (answer, error) {
	var a answer
	const most = time.Minute // ten thousand jobs take a second
	connection, err := net.DialTimeout("unix", socket, requestTime)
	if err != nil {
		return a, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(most)); err != nil {
		return a, err
	}
	if _, err := fmt.Fprintln(connection, request); err != nil {
		return a, err
	}
	err = json.NewDecoder(bufio.NewReader(connection)).Decode(&a)
	return a, err
}
