package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newReload() *cobra.Command {
	var path, as string
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

Run it as the user of the workers, or as root with --user, and on each machine.
Any process may say that it is a worker, so those of other users are not asked.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return reloadWorkers(command, path, as) },
	}
	command.Flags().StringVar(&path, "config", defaultConfig, "configuration file, by the path that the workers were started with")
	command.Flags().StringVar(&as, "user", "", "the `user` of the workers, by name or number, if it is another one than root and you")
	return command
}

// runningWorker is what seems to be a worker of this machine.
type runningWorker struct {
	pid    int
	socket string
}

func reloadWorkers(command *cobra.Command, path, as string) error {
	trusted := []int{0, os.Geteuid()}
	if as != "" {
		id, err := userID(as)
		if err != nil {
			return fmt.Errorf("--user: %w", err)
		}
		trusted[1] = id
	}
	found, err := runningWorkers(path)
	if err != nil {
		return err
	}
	workers, others, err := checkWorkers(found, trusted)
	if err != nil {
		return err
	}
	if len(workers) == 0 {
		if _, err := loadConfig(command, path); err != nil {
			return err
		}
		if others != nil {
			return fmt.Errorf("no worker of root or user %d runs with %s, but what may be one of user %s: run this as that user, or as root with --user",
				trusted[1], path, strings.Trim(fmt.Sprint(others), "[]"))
		}
		return fmt.Errorf("no worker of this machine runs with %s: give the path that it was started with", path)
	}
	var wrong []error
	for _, w := range workers {
		text, err := w.ask(requestReload, trusted)
		if err != nil {
			wrong = append(wrong, err)
		} else if _, err := fmt.Fprintf(command.OutOrStdout(), "worker %d: %s\n", w.pid, printableText(text)); err != nil {
			return err
		}
	}
	return errors.Join(wrong...)
}

// checkWorkers has the workers check the configuration. It returns those that are
// workers, and the other users that have bound such a name.
func checkWorkers(found []runningWorker, trusted []int) (workers []runningWorker, others []int, err error) {
	var wrong []error
	for _, w := range found {
		_, err := w.ask(requestCheck, trusted)
		var other otherUserError
		switch {
		case errors.Is(err, errNobodyListens):
			continue // it has just ended, or is part of another user's name
		case errors.As(err, &other):
			others = append(others, int(other))
			continue
		case err != nil:
			wrong = append(wrong, err)
		}
		workers = append(workers, w)
	}
	slices.Sort(others)
	return workers, slices.Compact(others), errors.Join(wrong...)
}

var errNobodyListens = errors.New("nothing listens")

// otherUserError is the user of a process that has bound a worker's name.
type otherUserError int

func (e otherUserError) Error() string {
	return fmt.Sprintf("it runs as user %d, which is not trusted", int(e))
}

// mostAnswer bounds an answer. Ten thousand jobs with faults are two megabytes.
const mostAnswer = 16 << 20

// ask sends a request to a worker and returns its answer, if it runs as one of the
// trusted users.
func (w runningWorker) ask(request string, trusted []int) (string, error) {
	a, err := exchange(w.socket, request, trusted)
	if err != nil {
		return "", fmt.Errorf("worker %d does not answer: %w", w.pid, err)
	}
	if !a.OK {
		return "", fmt.Errorf("worker %d refuses the configuration:\n%s", w.pid, a.Text)
	}
	return a.Text, nil
}

func exchange(socket, request string, trusted []int) (a answer, err error) {
	const most = time.Minute // ten thousand jobs take a second
	connection, err := net.DialTimeout("unix", socket, requestTime)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return a, errNobodyListens
	}
	if err != nil {
		return a, err
	}
	defer connection.Close()
	peer, err := peerUser(connection)
	if err != nil {
		return a, err
	}
	if !slices.Contains(trusted, peer) {
		return a, otherUserError(peer)
	}
	if err := connection.SetDeadline(time.Now().Add(most)); err != nil {
		return a, err
	}
	// A worker that refuses this user has answered, and closed, without reading.
	_, unsent := fmt.Fprintln(connection, request)
	if err := json.NewDecoder(io.LimitReader(connection, mostAnswer)).Decode(&a); err != nil {
		return a, cmp.Or(unsent, err)
	}
	return a, nil
}

// userID is the number of a user, who may be given by it.
func userID(name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil && id >= 0 {
		return id, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}
