package dbserver

import (
	"fmt"
	"strings"
	"time"
)

// zones are the named time zones that every server knows: a few with summer time on both halves of the globe, one with
// a half hour of it, one without a whole hour.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "America/Sao_Paulo",
	"Asia/Kolkata", "Asia/Tokyo", "Australia/Lord_Howe", "Australia/Sydney",
}

// Servers know of the changes in this time; the tables of both kinds end where their 32-bit times do.
var (
	zonesFrom = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	zonesTo   = time.Date(2037, 12, 31, 0, 0, 0, 0, time.UTC)
)

// timeZoneSQL returns statements, one a line, that fill the time zone tables of the system schema. The rules come from
// Go's own zone information, so that no tool of the server is needed.
func timeZoneSQL() (string, error) {
	var sql strings.Builder
	for i, name := range zones {
		location, err := time.LoadLocation(name)
		if err != nil {
			return "", fmt.Errorf("load time zones: %w", err)
		}
		writeZone(&sql, i+1, name, location)
	}
	return sql.String(), nil
}

func writeZone(sql *strings.Builder, id int, name string, location *time.Location) {
	type offset struct {
		seconds int
		summer  bool
		name    string
	}
	var types, transitions []string
	known := map[offset]int{}
	for at := zonesFrom.In(location); at.Before(zonesTo); {
		abbreviation, seconds := at.Zone()
		o := offset{seconds, at.IsDST(), abbreviation}
		number, ok := known[o]
		if !ok {
			number = len(known)
			known[o] = number
			summer := 0
			if o.summer {
				summer = 1
			}
			types = append(types, fmt.Sprintf("(%d,%d,%d,%d,'%.8s')", id, number, seconds, summer, abbreviation))
		}
		start, end := at.ZoneBounds()
		if start.Before(zonesFrom) {
			start = zonesFrom
		}
		transitions = append(transitions, fmt.Sprintf("(%d,%d,%d)", id, start.Unix(), number))
		if end.IsZero() {
			break
		}
		at = end
	}
	for _, insert := range []struct{ table, rows string }{
		{"time_zone (Time_zone_id,Use_leap_seconds)", fmt.Sprintf("(%d,'N')", id)},
		{"time_zone_name (Name,Time_zone_id)", fmt.Sprintf("('%s',%d)", name, id)},
		{
			"time_zone_transition_type (Time_zone_id,Transition_type_id,`Offset`,Is_DST,Abbreviation)",
			strings.Join(types, ","),
		},
		{"time_zone_transition (Time_zone_id,Transition_time,Transition_type_id)", strings.Join(transitions, ",")},
	} {
		fmt.Fprintf(sql, "INSERT INTO mysql.%s VALUES %s;\n", insert.table, insert.rows)
	}
}
