package subprocess

import (
	"os/exec"
	"testing"
)

// A process that is stopped does nothing any more, however busy the machine is.
func TestSuspendedProcessStandsStill(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	ended := make(chan struct{})
	if err := Go(cmd, func() { _ = cmd.Wait(); close(ended) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // once
		<-ended
	})
	for range 20 {
		if err := Suspend(cmd.Process); err != nil {
			t.Fatal(err)
		}
		if moving, err := moves(cmd.Process.Pid); moving || err != nil {
			t.Fatalf("it moves: %v, %v", moving, err)
		}
		if err := Resume(cmd.Process); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := waitStopped(cmd.Process.Pid); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}
