package sqlverb

import (
	"slices"
	"strconv"
	"strings"
)

// Postgres is [Of] and [Placeholders] for PostgreSQL, where a statement does not end its transaction unless it says so: the
// words of one that does, how many placeholders ($1) the text has, and whether it is one statement. What
// a function, a procedure or a DO runs cannot end the transaction that it is in.
func Postgres(text string) (controls string, placeholders int, one bool) {
	r := reading{postgres: true}
	w := append(r.words(text), "", "", "")
	switch first := w[0]; {
	case slices.Contains([]string{"ABORT", "BEGIN", "COMMIT", "END", "START"}, first),
		first == "ROLLBACK" && w[1] != "TO" && w[2] != "TO": // a savepoint
		controls = first
	case first == "PREPARE" && w[1] == "TRANSACTION":
		controls = "PREPARE TRANSACTION"
	}
	for s := text; s != ""; {
		token, rest := r.next(s)
		if number, err := strconv.Atoi(strings.TrimPrefix(token, "$")); err == nil && token[0] == '$' {
			placeholders = max(placeholders, number)
		}
		s = rest
	}
	return controls, placeholders, r.one(text)
}

// postgresToken is the length of the first token of a text, as PostgreSQL has it
// (https://www.postgresql.org/docs/current/sql-syntax-lexical.html).
func postgresToken(s string) int {
	isName := func(c byte) bool { return isWord(c) || c >= 0x80 }
	until := func(from int, end string) int { // what follows the next end
		if i := strings.Index(s[min(from, len(s)):], end); i >= 0 {
			return min(from, len(s)) + i + len(end)
		}
		return len(s)
	}
	end := 1
	switch c := s[0]; {
	case strings.HasPrefix(s, "/*"):
		for depth := 0; end < len(s); end++ {
			switch s[end-1 : end+1] {
			case "/*":
				depth++
				end++
			case "*/":
				if depth--; depth == 0 {
					return end + 1
				}
				end++
			}
		}
	case strings.HasPrefix(s, "--"):
		end = until(2, "\n")
	case c == '$':
		for end < len(s) && isName(s[end]) {
			end++
		}
		if number := s[1:end]; number != "" && '0' <= number[0] && number[0] <= '9' {
			end = 1
			for end < len(s) && '0' <= s[end] && s[end] <= '9' {
				end++
			}
		} else if end < len(s) && s[end] == '$' {
			end = until(end+1, s[:end+1])
		}
	case c == '\'', c == '"':
		end = until(1, string(c)) // a doubled quote begins another one
	case (c == 'e' || c == 'E') && strings.HasPrefix(s[1:], "'"):
		for end = 2; end < len(s) && s[end] != '\''; end++ {
			if s[end] == '\\' {
				end++
			}
		}
		end = min(end+1, len(s))
	case '0' <= c && c <= '9':
		for end < len(s) && isName(s[end]) {
			end++
		}
	case isName(c):
		for end < len(s) && (isName(s[end]) || s[end] == '$') {
			end++
		}
	}
	return end
}
