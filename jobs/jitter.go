package jobs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
)

// Delay is how long after a tick its run is started: a part of [Job.Jitter] that
// depends on the group, the job and the tick alone, so that every replica puts it
// off by as much. It is of whole microseconds.
func (j Job) Delay(group string, tick time.Time) time.Duration {
	text := append([]byte(group), 0)
	text = append(append(text, j.Name...), 0)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, uint64(tick.UnixMicro())))
	part, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(max(j.Jitter, 0))) // below Jitter, evenly spread
	return time.Duration(part).Truncate(time.Microsecond)
}

func (j Job) checkJitter() error {
	switch {
	case j.Jitter < 0:
		return fmt.Errorf("Jitter %v: must not be negative", j.Jitter) //nolint:staticcheck // the name of the field
	case j.Jitter == 0 || j.Schedule == nil:
		return nil
	}
	if _, ok := Base(j.Schedule).(ManualSchedule); ok {
		return fmt.Errorf("Jitter %v: a job that is only triggered starts at once", j.Jitter) //nolint:staticcheck // as above
	}
	if shortest, _ := intervals(j.Schedule); shortest > 0 && j.Jitter > shortest {
		return fmt.Errorf("Jitter %v: must be at most %v, the time between two ticks", j.Jitter, shortest) //nolint:staticcheck // as above
	}
	return nil
}
