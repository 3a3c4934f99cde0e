// Package sqlverb reads as much of an SQL statement as can be read without a
// parser: whether it ends the transaction that it is in, and what it asks for.
package sqlverb

import (
	"slices"
	"strings"
)

// Effect is what a statement does to the transaction that it is in.
type Effect int

// The effects.
const (
	// None: it is a part of the transaction.
	None Effect = iota
	// Controls: it begins, ends or changes a transaction, in any database.
	Controls
	// Commits: MySQL and MariaDB commit the transaction before they run it. In
	// SQLite it is a part of the transaction.
	Commits
)

// Of returns the effect of a statement, and the words that tell. It looks at
// the beginning alone: what a procedure does, or the second of several
// statements, it cannot know.
func Of(statement string) (Effect, string) {
	w := words(statement, 3)
	first, second := w[0], w[1]
	effect, told := None, first
	switch first {
	case "BEGIN", "COMMIT", "END", "XA":
		effect = Controls
	case "START":
		effect, told = Controls, first+" "+second
		if second != "TRANSACTION" {
			effect = Commits // of replication
		}
	case "ROLLBACK":
		if second != "TO" && w[2] != "TO" { // a savepoint
			effect = Controls
		}
	case "SET":
		switch {
		case second == "PASSWORD":
			effect, told = Commits, first+" "+second
		case slices.Contains(words(statement, 1000), "AUTOCOMMIT"):
			effect, told = Controls, "SET autocommit"
		}
	case "CREATE", "DROP":
		if second != "TEMPORARY" && (second != "OR" || !slices.Contains(words(statement, 4), "TEMPORARY")) {
			effect, told = Commits, first+" "+second
		}
	case "ALTER", "CACHE", "CHANGE", "CHECK", "FLUSH", "GRANT", "IMPORT", "INSTALL", "LOCK", "OPTIMIZE", "RENAME", "REPAIR", "RESET",
		"REVOKE", "STOP", "TRUNCATE", "UNINSTALL", "UNLOCK":
		effect = Commits
	case "ANALYZE": // MariaDB also has ANALYZE SELECT
		if second == "TABLE" || second == "LOCAL" || second == "NO_WRITE_TO_BINLOG" {
			effect = Commits
		}
	case "LOAD":
		if second == "INDEX" {
			effect, told = Commits, first+" "+second
		}
	}
	if effect == None {
		return None, ""
	}
	return effect, strings.TrimSpace(told)
}

// words returns the first words of a statement in upper case, at least n of
// them: what is missing is empty. Comments are left out, but not what MySQL and
// MariaDB run of them (/*!80000 ... */ and /*M! ... */).
func words(s string, n int) []string {
	found := make([]string, 0, max(n, 3))
	for len(found) < n && s != "" {
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			s = strings.TrimLeft(s[strings.IndexByte(s, '!')+1:], "0123456789")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
		case strings.HasPrefix(s, "--"), s[0] == '#':
			_, s, _ = strings.Cut(s, "\n")
		case isWord(s[0]):
			end := 1
			for end < len(s) && isWord(s[end]) {
				end++
			}
			found = append(found, strings.ToUpper(s[:end]))
			s = s[end:]
		default:
			s = s[1:]
		}
	}
	for len(found) < n {
		found = append(found, "")
	}
	return found
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// Placeholders counts the ? of a text that holds one statement. It returns one is
// false when another follows, and known is false when the count cannot be told:
// after a backslash in a string, which databases read in different ways, and with
// placeholders that have numbers or names.
func Placeholders(s string) (n int, one, known bool) {
	one, known = true, true
	ended := false
	for s != "" {
		c := s[0]
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			s = s[strings.IndexByte(s, '!')+1:]
			continue
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
			continue
		case strings.HasPrefix(s, "--") && len(s) > 2 && s[2] > ' ':
			known = false // a comment in SQLite, and in MySQL the minus of a negative number
			s = s[2:]
			continue
		case strings.HasPrefix(s, "--"), c == '#':
			_, s, _ = strings.Cut(s, "\n")
			continue
		}
		one = one && (!ended || strings.IndexByte(" \t\r\n;", c) >= 0)
		switch c {
		case '\'', '"', '`':
			text, after, _ := strings.Cut(s[1:], string(c)) // a doubled one begins another
			known = known && (c == '`' || strings.IndexByte(text, '\\') < 0)
			s = after
			continue
		case ';':
			ended = true
		case '?':
			n++
			known = known && (len(s) == 1 || !isWord(s[1]))
		case ':', '$':
			known = known && (len(s) == 1 || !isWord(s[1]))
		}
		s = s[1:]
	}
	return n, one, known
}
