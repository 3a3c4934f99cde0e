package tracing

import (
	"strconv"
	"strings"
)

// text is valid for exporters, which refuse a whole batch for what is no UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
