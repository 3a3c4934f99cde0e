package mysqlstore

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// Flaw is a statement in which one condition always or never holds, or which lacks one assignment.
type Flaw struct {
	Statement string // such as ledger.claim
	what      string
	text      string // of the statement
}

func (f Flaw) String() string { return fmt.Sprintf("%s: %s", f.Statement, f.what) }

// about are the topics of the suites that are about some statements.
var about = []struct{ statements, topics string }{
	{`^lease\.(acquire|takeReleased|handOver)`, "acquire,handover,signal,concurrency"},
	{`^lease\.insert`, "prepare"},
	{`^lease\.release|isReleased`, "release,handover"},
	{`^lease\.renew`, "renew"},
	{`^lease\.(ask|isAsked)`, "resign"},
	{`^lease`, "read"},
	{`^lock\.(prune|idle|sessions)`, "prune"},
	{`^lock\.(wait|notWaits)`, "notifier"},
	{`^lock`, "write,read,prune"},
	{`^fence`, "fence"},
	{`^request`, "requests,changes"},
	{`^replica`, "replicas"},
	{`^archive\.(count|cut)`, "counts"},
	{`^archive\.newest`, "newest"},
	{`Term`, "terms,archive prune"},
	{`^archive\.(.*Audit|note|oldest|inAll)`, "audit,archive prune"},
	{`(?i)attempt`, "attempts,prune"},
	{`^ledger\.(newest|runs)`, "runs"},
	{`^ledger\.(bounds|keptFrom|prun|orphans)`, "prune"},
	{`^ledger\.changes`, "changes"},
	{`^ledger\.(lockJobs|updateJobs|insertJobs)`, "pause,declare,replicas"},
	{`^ledger\.(lockRun|putRun)`, "cancel"},
	{`^ledger\.passOver`, "pass over,attempts"},
	{`^ledger\.forget`, "replicas,attempts"},
	{`^ledger\.(lockFence|writeFence)`, "pass over,declare"},
}

// About are the topics of the suites that are about the statement.
func (f Flaw) About() []string {
	for _, a := range about {
		if regexp.MustCompile(a.statements).MatchString(f.Statement) {
			return append(strings.Split(a.topics, ","), "histories")
		}
	}
	return []string{"histories", "claim", "move", "load"}
}

// statementsOf are the statements of a store, by their fields.
func statementsOf(s *Store) map[string]*sqltext.Query {
	all := map[string]*sqltext.Query{}
	for _, queries := range []any{s.leases.sql, s.ledger.sql, s.lockRows.sql, s.requests.sql, s.fences.sql, s.archive.sql, s.replicas.sql} {
		v := reflect.ValueOf(queries).Elem()
		for i := range v.NumField() {
			if v.Field(i).Type() == reflect.TypeFor[sqltext.Query]() {
				all[strings.TrimSuffix(v.Type().Name(), "Queries")+"."+v.Type().Field(i).Name] = (*sqltext.Query)(unsafe.Pointer(v.Field(i).UnsafeAddr()))
			}
		}
	}
	return all
}

// Flaws are all there are, in the order of their statements.
func Flaws() []Flaw {
	statements := statementsOf(newStore(nil, "cronlease_"))
	var all []Flaw
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		all = append(all, flawsOf(name, statements[name].String())...)
	}
	return all
}

// Break puts a flaw into the statements of a store.
func (s *Store) Break(f Flaw) { *statementsOf(s)[f.Statement] = sqltext.Parse(f.text) }

var token = regexp.MustCompile("`[^`]*`|'[^']*'|[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|<<|<=>|<=|>=|<>|[=<>]|\\s+|.")

// Where the operand of a comparison ends, and the value of an assignment.
var (
	endOfOperand = map[string]bool{"AND": true, "OR": true, "NOT": true, "WHERE": true, "ON": true, "WHEN": true, "THEN": true, "ELSE": true, "END": true, ",": true, "SET": true, "SELECT": true, "(": true, ")": true,
		"LEFT": true, "STRAIGHT_JOIN": true, "ORDER": true, "GROUP": true, "LIMIT": true, "LOCK": true, "FOR": true, "UPDATE": true, "UNION": true, "KEY": true, "FROM": true, "AS": true, "HAVING": true, "DUPLICATE": true}
	endOfAssignment = map[string]bool{",": true, ")": true, "WHERE": true, "ON": true, "ORDER": true, "LIMIT": true}
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

// flawsOf are the flaws of a statement.
func flawsOf(name, statement string) []Flaw {
	tokens := token.FindAllString(statement, -1)
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
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		add := func(what, instead string) {
			flaws = append(flaws, Flaw{Statement: name, what: left + " " + tok + " " + right + what,
				text: strings.Join(tokens[:from], "") + " " + instead + " " + strings.Join(tokens[to:], "")})
		}
		if assigns {
			add(" is left out", left+" = IF(TRUE, "+left+", "+right+")")
			continue
		}
		add(" is true", "("+left+" "+tok+" "+right+" OR TRUE)")
		add(" is false", "("+left+" "+tok+" "+right+" AND FALSE)")
	}
	return flaws
}
