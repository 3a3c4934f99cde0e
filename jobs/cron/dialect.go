package cron

import (
	"fmt"
	"strings"
)

// Dialect says whose rules an expression follows. The zero value is Auto.
type Dialect uint8

const (
	// Auto goes by the number of fields: five are Unix, six are Spring. Seven are refused, because only Quartz has
	// them and a Quartz expression should be called one: its weekday numbers differ.
	Auto Dialect = iota
	// Unix has five fields, from minutes to day-of-week, and Sunday is 0 or 7. The two day fields are joined by OR
	// when neither starts with "*" or "?", and by AND otherwise, as in Vixie cron.
	Unix
	// Spring has six fields, from seconds to day-of-week, and Sunday is 0 or 7. Both day fields must hold.
	Spring
	// Quartz has six or seven fields, the seventh being the year, and Sunday is 1. Exactly one of the two day fields
	// must be "?".
	Quartz
)

// String returns the name that ParseDialect reads.
func (d Dialect) String() string {
	switch d {
	case Auto:
		return "auto"
	case Unix:
		return "unix"
	case Spring:
		return "spring"
	case Quartz:
		return "quartz"
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

// ParseDialect reads auto, unix, spring or quartz, in any case. The empty string is Auto.
func ParseDialect(name string) (Dialect, error) {
	for d := Auto; d <= Quartz; d++ {
		if strings.EqualFold(name, d.String()) {
			return d, nil
		}
	}
	if name == "" {
		return Auto, nil
	}
	return Auto, fmt.Errorf("cron: dialect %q: want auto, unix, spring or quartz", name)
}
