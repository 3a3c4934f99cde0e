package gameday

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// commitFaults are of a server that takes statements, and whose commits do not end.
func commitFaults() []fault {
	hangs := func(point string) func(*scene) func() {
		return func(s *scene) func() {
			set := "SET GLOBAL rpl_semi_sync_master_" // MariaDB has it built in
			if *on == dbserver.MySQL {
				set = "SET GLOBAL rpl_semi_sync_source_"
				s.exec("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
			}
			s.exec(set + "timeout = 100000000")
			s.exec(set + "wait_point = " + point)
			s.exec(set + "enabled = ON")
			return func() { s.exec(set + "enabled = OFF") }
		}
	}
	logged := func(*scene) []string { return []string{"--log-bin=binlog", "--server-id=1"} }
	var filled string
	return []fault{
		{
			name: "commits-hang", what: "No replica acknowledges commits (semi-synchronous, AFTER_SYNC)", lasts: brief, prepare: logged,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{3}, doctor: []string{"commits"}, exit: 5, never: "(KILL ID)", page: "No replica leads", again: time.Minute},
			do:   hangs("AFTER_SYNC"),
		},
		{
			name: "answers-hang", what: "No replica acknowledges commits, which others see (AFTER_COMMIT)", lasts: short, prepare: logged,
			// What one replica writes, the others see: for a minute they take turns, and lead for some seconds each.
			want: want{within: 100 * time.Second, alerts: []string{"CronleaseNoLeader"}, notReady: 3, status: []int{3, 4}, doctor: []string{"commits"}, exit: 5, never: "(KILL ID)", page: "No replica leads"},
			do:   hangs("AFTER_COMMIT"),
		},
		{
			name: "disk-full", mariadb: true, what: "The disk of the server's binary log is full", lasts: brief,
			prepare: func(s *scene) []string {
				disk := s.t.TempDir()
				if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=6M,mode=777", "tmpfs", disk).CombinedOutput(); err != nil {
					s.t.Fatalf("a small disk needs root: mount: %v: %s", err, out)
				}
				s.t.Cleanup(func() {
					if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
						s.t.Errorf("umount: %v: %s", err, out)
					}
				})
				filled = filepath.Join(disk, "filled")
				return []string{"--log-bin=" + filepath.Join(disk, "binlog"), "--server-id=1", "--sync-binlog=1"}
			},
			// The server looks once a minute whether there is room again.
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{3}, doctor: []string{"commits"}, exit: 5, never: "(KILL ID)", page: "No replica leads", again: 2 * time.Minute},
			do: func(s *scene) func() {
				fill(s, filled)
				return func() {
					if err := os.Remove(filled); err != nil {
						s.t.Error(err)
					}
				}
			},
		},
	}
}

// fill writes a file until the disk is full.
func fill(s *scene, path string) {
	file, err := os.Create(path)
	if err != nil {
		s.t.Error(err)
		return
	}
	block := make([]byte, 4096)
	for _, size := range []int{len(block), 1} { // the last bytes one by one
		for err = nil; err == nil; {
			_, err = file.Write(block[:size])
		}
	}
	_ = file.Close()
}
