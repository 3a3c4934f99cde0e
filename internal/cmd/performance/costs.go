package main

import (
	"fmt"
	"math"
	"strings"
)

// operation is a line of the plots, and some rows of the table of costs.
type operation struct {
	name, what, of string
	sizes          []int
	colour         string
}

var sizes = []int{1, 10, 100, 1000}

var operations = []operation{
	{"heartbeat", "heartbeat", "groups", sizes, "#0b6e4f"},
	{"look", "look", "groups", sizes, "#2563eb"},
	{"hand-over", "hand-over", "replicas", []int{2, 10, 50}, "#b91c1c"},
	{"takeover", "takeover after a crash", "jobs", sizes, "#7b8794"},
	{"tick", "tick of all jobs", "jobs", sizes, "#b45309"},
	{"lock", "lock and unlock", "workers", sizes, "#6d28d9"},
	{"lock-hand-over", "hand-over of a lock", "waiters", sizes, "#0e7490"},
}

func (o operation) get(r *results, dialect string, n int, unit string) float64 {
	return r.get(fmt.Sprintf("performance.Cost/%s/%s/%s=%d", dialect, o.name, o.of, n), unit+"/op")
}

var counted = []string{"statements", "trips", "commits", "bytes"}

// costs is the table of what operations cost.
func (r *results) costs() string {
	var out strings.Builder
	out.WriteString("| one | of | server |")
	for _, title := range []string{"statements", "round trips", "commits", "bytes"} {
		fmt.Fprintf(&out, " %s |", title)
	}
	out.WriteString("\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, o := range operations {
		for _, n := range o.sizes {
			for _, d := range dialects {
				var cells []string
				known := false
				for _, unit := range counted {
					v := o.get(r, d.name, n, unit)
					known = known || !math.IsNaN(v)
					cells = append(cells, number(v))
				}
				if known {
					fmt.Fprintf(&out, "| %s | %s %s | %s | %s |\n", o.what, number(float64(n)), o.of, d.title, strings.Join(cells, " | "))
				}
			}
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

// connections is the table of how many a process has.
func (r *results) connections() string {
	var out strings.Builder
	out.WriteString("| a process that | of groups | MariaDB | MySQL |\n| --- | --- | --- | --- |\n")
	for _, role := range []struct{ name, what string }{{"leader", "leads"}, {"follower", "follows"}} {
		for _, n := range []int{1, 20} {
			fmt.Fprintf(&out, "| %s | %d |", role.what, n)
			for _, d := range dialects {
				fmt.Fprintf(&out, " %s |", number(r.get(fmt.Sprintf("performance.Connections/%s/%s/groups=%d", d.name, role.name, n), "connections")))
			}
			out.WriteString("\n")
		}
	}
	return strings.TrimRight(out.String(), "\n")
}
