// Package sqlflaws breaks SQL statements, one condition or assignment at a time, so that tests can see whether the suites of
// storetest notice.
package sqlflaws

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Flaw is a statement of a store in which one condition always or never holds, or which lacks one assignment.
type Flaw struct {
	Statement string // such as ledger.claim
	What      string // such as: grp = ?1 is true
	Text      string // of the statement
	// About are the topics of the suites that are about the statement.
	About []string
}

func (f Flaw) String() string { return f.Statement + ": " + f.What }

// Topics are a regular expression for the names of statements, and the topics of the suites that are about them, with commas.
type Topics [2]string

// Of returns the flaws of statements, which are given by their names, in the order of these. The first topics that match a
// name are its own; where none do, it is about claims and moves.
func Of(statements map[string]string, topics []Topics) []Flaw {
	var all []Flaw
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		about := []string{"histories", "claim", "move", "load"}
		for _, t := range topics {
			if regexp.MustCompile(t[0]).MatchString(name) {
				about = append(strings.Split(t[1], ","), "histories")
				break
			}
		}
		for _, f := range flawsOf(statements[name]) {
			f.Statement, f.About = name, about
			all = append(all, f)
		}
	}
	return all
}

var token = regexp.MustCompile("`[^`]*`|'[^']*'|[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|<<|->>?|<=>|<=|>=|<>|[=<>]|\\s+|.")

// hint is what SQLite refuses to follow once a condition is missing.
var hint = regexp.MustCompile(`INDEXED BY \w+`)

// Where the operand of a comparison ends, and the value of an assignment.
var (
	endOfOperand = map[string]bool{"AND": true, "OR": true, "NOT": true, "WHERE": true, "ON": true, "WHEN": true, "THEN": true, "ELSE": true, "END": true, ",": true, "SET": true, "SELECT": true, "(": true, ")": true,
		"LEFT": true, "STRAIGHT_JOIN": true, "ORDER": true, "GROUP": true, "LIMIT": true, "LOCK": true, "FOR": true, "UPDATE": true, "UNION": true, "KEY": true, "FROM": true, "AS": true, "HAVING": true, "DUPLICATE": true,
		"CROSS": true, "RETURNING": true, "OFFSET": true}
	endOfAssignment = map[string]bool{",": true, ")": true, "WHERE": true, "ON": true, "ORDER": true, "LIMIT": true, "FROM": true, "RETURNING": true}
)

// edge is the first place from at on, in steps, outside of parentheses, that ends what is there.
func edge(tokens []string, at, step int, ends map[string]bool) int {
	opens, closes := "(", ")"
	if step < 0 {
		opens, closes = closes, opens
	}
	for depth := 0; at >= 0 && at < len(tokens); at += step {
		switch tok := tokens[at]; {
		case tok == opens:
			depth++
		case tok == closes && depth > 0:
			depth--
		case depth == 0 && ends[tok]:
			return at
		}
	}
	return at
}

// flawsOf returns the flaws of a statement.
func flawsOf(statement string) []Flaw {
	tokens := token.FindAllString(hint.ReplaceAllString(statement, ""), -1)
	var flaws []Flaw
	clause := []string{""} // of each open parenthesis
	for i, tok := range tokens {
		switch tok {
		case "(":
			clause = append(clause, "(")
			continue
		case ")":
			clause = clause[:len(clause)-1]
			continue
		case "SET", "SELECT", "WHERE", "ON", "FROM", "UPDATE", "WITH":
			clause[len(clause)-1] = tok
			continue
		case "=", "<", ">", "<=", ">=", "<>", "<=>", "IN", "IS":
		default:
			continue
		}
		assigns := clause[len(clause)-1] == "SET" || clause[len(clause)-1] == "UPDATE"
		from, to := edge(tokens, i-1, -1, endOfOperand)+1, edge(tokens, i+1, +1, endOfOperand)
		if assigns {
			to = edge(tokens, i+1, +1, endOfAssignment)
		}
		left, right := strings.Join(tokens[from:i], ""), strings.Join(tokens[i+1:to], "")
		if strings.TrimSpace(left) == "" {
			continue // LOCK IN SHARE MODE
		}
		if assigns && strings.HasSuffix(right, "."+strings.TrimSpace(left)) && strings.HasPrefix(strings.TrimSpace(right), "`") {
			continue // it leaves a row as it is: ON DUPLICATE KEY UPDATE grp = {run}.grp
		}
		if left, right = strings.TrimSpace(left), strings.TrimSpace(right); assigns && left == right {
			continue // it only takes a lock
		}
		add := func(what, instead string) {
			flaws = append(flaws, Flaw{
				What: left + " " + tok + " " + right + what,
				Text: strings.Join(tokens[:from], "") + " " + instead + " " + strings.Join(tokens[to:], ""),
			})
		}
		if assigns {
			add(" is left out", left+" = CASE WHEN TRUE THEN "+left+" ELSE "+right+" END")
			continue
		}
		add(" is true", "("+left+" "+tok+" "+right+" OR TRUE)")
		add(" is false", "("+left+" "+tok+" "+right+" AND FALSE)")
	}
	return flaws
}
