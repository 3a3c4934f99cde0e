//go:build unix && !linux

package execjob

import "context"

func startOwn(start func() (pid int, err error)) error {
	_, err := start()
	return err
}

func disown(int) {}

// ReapOrphans does nothing: a worker is not the first process elsewhere.
func ReapOrphans(context.Context) {}
