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
	// Opaque: it runs other statements, which its text does not show, or not where
	// they can be told from other text.
	Opaque
)

// Of returns the effect of a statement, and the words that tell. It looks at
// the beginning alone: what a procedure does, or the second of several
// statements, it cannot know. Where databases read a text in different ways, the
// reading with an effect counts. A statement that it does not know, and one with an executable
// comment, is Opaque.
func Of(statement string) (Effect, string) {
	hidden := ""
	for _, r := range readings {
		switch effect, told := r.effect(statement); {
		case effect == Opaque:
			hidden = told
		case effect != None:
			return effect, told
		}
	}
	switch {
	case hidden != "":
		return Opaque, hidden
	case Executable(statement):
		return Opaque, "an executable comment"
	}
	return None, ""
}

// Savepoint reports whether a statement sets a savepoint.
func Savepoint(statement string) bool {
	for _, r := range readings {
		for s := statement; s != ""; {
			token, rest := r.next(s)
			if isWord(token[0]) {
				if strings.EqualFold(token, "SAVEPOINT") {
					return true
				}
				break
			}
			s = rest
		}
	}
	return false
}

// Fills reports whether a statement creates a temporary table and writes the rows of a query into it,
// or may, as in CREATE TEMPORARY TABLE a SELECT 1.
func Fills(statement string) bool {
	for _, r := range readings {
		w := r.words(statement)
		i := slices.Index(w, "TEMPORARY")
		if i < 1 || !slices.Contains(w[:i], "CREATE") || i+2 > len(w) {
			continue
		}
		for _, begins := range []string{"SELECT", "TABLE", "VALUES", "WITH"} {
			if slices.Contains(w[i+2:], begins) { // after the first TABLE
				return true
			}
		}
	}
	return false
}

// Executable reports whether a text has /*! or /*M! anywhere, also where it may be a
// part of a string: which servers run what follows, and which skip it, the
// text does not tell.
func Executable(text string) bool {
	return strings.Contains(text, "/*!") || strings.Contains(strings.ToUpper(text), "/*M!")
}

// reading is a way to read a text. The databases differ, and some settings change it.
type reading struct {
	sqlite    bool // each -- begins a comment, and [ ] quotes
	backslash bool // escapes in a string, as without NO_BACKSLASH_ESCAPES
	postgres  bool // comments nest, E'' has escapes, and $$ quotes
}

var readings = []reading{{}, {backslash: true}, {sqlite: true}}

// effect is Of by one reading.
func (r reading) effect(statement string) (Effect, string) {
	w := r.words(statement)
	switch {
	case len(w) == 0:
		return None, ""
	case w[0] == "SET":
		return ofSet(w)
	}
	for i := 1; i < len(w)-1; i++ { // one of MariaDB's compound statements with a label: "a: LOOP"
		if w[i] == ":" && slices.Contains([]string{"BEGIN", "FOR", "LOOP", "REPEAT", "WHILE"}, w[i+1]) {
			return Opaque, w[i+1]
		}
	}
	return of(w)
}

// plain are the first words of statements that are a part of their transaction.
var plain = []string{
	"CHECKSUM", "DEALLOCATE", "DELETE", "DESC", "DESCRIBE", "DO", "EXPLAIN", "HANDLER", "HELP", "INSERT", "KILL", "RELEASE", "REPLACE", "SAVEPOINT",
	"SELECT", "SHOW", "SIGNAL", "TABLE", "UPDATE", "USE", "VALUES", "WITH",
	"ATTACH", "DETACH", "PRAGMA", "REINDEX", "VACUUM", // of SQLite
}

// of returns the effect of a statement, other than SET, by its first words.
func of(w []string) (Effect, string) {
	all := w
	w = append(slices.Clone(w[:min(len(w), 5)]), "", "", "", "")
	first, second, third := w[0], w[1], w[2]
	effect, told := None, first
	switch first {
	case "ABORT", "BEGIN", "COMMIT", "END", "XA":
		effect = Controls
	case "START":
		effect, told = Controls, first+" "+second
		if second != "TRANSACTION" {
			effect = Commits // of replication
		}
	case "ROLLBACK":
		if second != "TO" && third != "TO" { // a savepoint
			effect = Controls
		}
	case "CREATE", "DROP":
		kind := third
		if second == "OR" {
			second, kind = w[3], w[4]
		}
		switch {
		case second != "TEMPORARY":
			effect, told = Commits, first+" "+w[1]
		case first == "DROP":
		case kind == "SEQUENCE": // of MariaDB, which commits although it is temporary
			effect, told = Commits, "CREATE TEMPORARY SEQUENCE"
		case slices.Contains(all, "LIKE"), slices.Contains(all, "SEQUENCE"), // may make such a sequence
			follows(all, "START", "TRANSACTION"): // MySQL refuses this option after it has committed
			effect, told = Opaque, "CREATE TEMPORARY "+kind
		}
	case "ALTER", "BACKUP", "CACHE", "CHANGE", "CHECK", "FLUSH", "GRANT", "IMPORT", "INSTALL", "LOCK", "OPTIMIZE", "RENAME", "REPAIR", "RESET",
		"REVOKE", "STOP", "TRUNCATE", "UNINSTALL", "UNLOCK":
		effect = Commits
	case "ANALYZE": // of tables, but for MariaDB's ANALYZE SELECT and the like
		if !slices.Contains([]string{"FORMAT", "DELETE", "INSERT", "REPLACE", "SELECT", "UPDATE", "WITH"}, second) {
			effect = Commits
		}
	case "LOAD":
		if second == "INDEX" {
			effect, told = Commits, first+" "+second
		}
	default: // also CALL and EXECUTE, and IF and the like, which MariaDB runs outside of procedures too
		if !slices.Contains(plain, first) {
			effect = Opaque
		}
	}
	if effect == None {
		return None, ""
	}
	return effect, strings.TrimSpace(told)
}

// follows reports whether one word follows another.
func follows(w []string, first, second string) bool {
	for i := 1; i < len(w); i++ {
		if w[i-1] == first && w[i] == second {
			return true
		}
	}
	return false
}

// ofSet returns the effect of SET, given all of its words. It has any number of
// assignments, so what counts may stand anywhere.
func ofSet(w []string) (Effect, string) {
	switch {
	case slices.Contains(w, "PASSWORD"):
		return Commits, "SET PASSWORD"
	case slices.Contains(w, "ROLE") && slices.Contains(w, "DEFAULT"):
		return Commits, "SET DEFAULT ROLE"
	case slices.Contains(w, "AUTOCOMMIT"):
		return Controls, "SET autocommit"
	case len(w) < 2 || w[1] != "STATEMENT":
		return None, ""
	}
	// MariaDB's SET STATEMENT variable = value FOR statement. A FOR can also stand
	// in a value, so what follows each of them counts; and in the statement, where
	// what is not known (FOR SHARE) has no effect.
	first := true
	for i, word := range w {
		if word != "FOR" || i+1 == len(w) {
			continue
		}
		rest := w[i+1:]
		effectOf := of
		if rest[0] == "SET" {
			effectOf = ofSet
		}
		effect, told := effectOf(rest)
		known := slices.Contains([]string{"CALL", "EXECUTE", "PREPARE"}, rest[0])
		if effect != None && (first || known || effect != Opaque) {
			return effect, "SET STATEMENT ... FOR " + told
		}
		first = false
	}
	return None, ""
}

// words returns the words of a statement in upper case, and each colon. Quoted names are
// words, strings are left out. So are comments, but not what MySQL and MariaDB
// run of them (/*!80000 ... */ and /*M! ... */).
func (r reading) words(s string) (found []string) {
	for s != "" {
		switch token, rest := r.next(s); {
		case isWord(token[0]):
			found = append(found, strings.ToUpper(token))
			s = rest
		case token[0] == '`', token[0] == '"', token[0] == '[' && r.sqlite:
			if name := strings.Trim(token, "`\"[]"); name != "" {
				found = append(found, strings.ToUpper(name))
			}
			s = rest
		case token == ":":
			found = append(found, token)
			s = rest
		default:
			s = rest
		}
	}
	return found
}

// next returns the first token of a text: a word, a string or name with its
// quotes, a comment, the beginning of an executable one, or a character.
func (r reading) next(s string) (token, rest string) {
	end := 1
	switch c := s[0]; {
	case r.postgres:
		end = postgresToken(s)
	case !r.sqlite && (strings.HasPrefix(s, "/*!") || strings.HasPrefix(s, "/*M!")):
		end = strings.IndexByte(s, '!') + 1
		for end < len(s) && '0' <= s[end] && s[end] <= '9' {
			end++
		}
	case strings.HasPrefix(s, "/*"):
		end = len(s)
		if i := strings.Index(s[2:], "*/"); i >= 0 {
			end = 2 + i + 2
		}
	case strings.HasPrefix(s, "--") && (r.sqlite || len(s) == 2 || s[2] <= ' ' || s[2] == 0x7f), c == '#':
		end = len(s)
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			end = i + 1
		}
	case isWord(c):
		for end < len(s) && isWord(s[end]) {
			end++
		}
	case c == '\'', c == '"', c == '`', c == '[' && r.sqlite:
		until := c
		if c == '[' {
			until = ']'
		}
		for end < len(s) && s[end] != until { // a doubled quote begins another one
			if s[end] == '\\' && r.backslash && c != '`' {
				end++
			}
			end++
		}
		end = min(end+1, len(s))
	}
	return s[:end], s[end:]
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// one reports whether a text is one statement by this reading.
func (r reading) one(s string) bool {
	ended := false
	for s != "" {
		token, rest := r.next(s)
		comment := strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*") || token[0] == '#' && !r.postgres
		if ended && !comment && !strings.Contains(" \t\r\n;", token) {
			return false
		}
		ended = ended || token == ";"
		s = rest
	}
	return true
}

// Placeholders counts the ? of a text that holds one statement. It returns one is
// false when another follows, for any database, and known is false when the count cannot be told:
// after a backslash in a string, which databases read in different ways, and with
// placeholders that have numbers or names.
func Placeholders(s string) (n int, one, known bool) {
	one, known = true, true
	for _, r := range readings {
		one = one && r.one(s)
	}
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
		switch c {
		case '\'', '"', '`':
			text, after, _ := strings.Cut(s[1:], string(c)) // a doubled one begins another
			known = known && (c == '`' || strings.IndexByte(text, '\\') < 0)
			s = after
			continue
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
