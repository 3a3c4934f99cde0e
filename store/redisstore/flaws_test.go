package redisstore_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store/storetest"
)

var flaws = flag.String("flaws", "", "a regular expression: of the scripts whose names match it, each condition and write is left out in turn")

// flaw is a script in which one condition always or never holds, or from which one write is left out.
type flaw struct {
	script string
	what   string
	// from is the text of the script's file, and to what it is with the flaw.
	from, to string
}

func (f flaw) String() string { return f.script + ": " + f.what }

// Each condition and each write of a script has a case of the suites that fails without it. See docs/checks.md.
func TestFlaws(t *testing.T) {
	t.Parallel()
	if *flaws == "" {
		return
	}
	wanted := regexp.MustCompile(*flaws)
	files, err := filepath.Glob("scripts/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		script := strings.TrimSuffix(filepath.Base(file), ".lua")
		if !wanted.MatchString(script) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flawsOf(script, string(text)) {
			found := storetest.Finds(t, func(t testing.TB) storetest.Harness {
				h := harnessWith(t, f)
				h.Patience = 30 * time.Second
				return h
			}, about(f.script)...)
			if found == "" {
				t.Errorf("no case fails where %s", f)
			} else {
				t.Logf("where %s, a case fails: %.300s", f, found)
			}
		}
	}
}

// about are the topics of the suites that are about a script.
func about(script string) []string {
	for _, a := range []struct{ script, topics string }{
		{"acquire|present", "acquire,handover,signal,presence"},
		{"prepare", "prepare"},
		{"^release", "release,handover"},
		{"^renew", "renew"},
		{"resign", "resign"},
		{"^read$", "read"},
		{"beat|requests|wake", "requests,changes,spread"},
		{"locks|sessions", "write,read,prune,notifier"},
		{"enlist|refresh|strike|roster|list|seen", "replicas"},
		{"^rows$", "pause,cancel,declare,replicas,terms,archive prune,audit,concurrency"},
		{"^trigger$", "trigger"},
		{"audit", "audit"},
		{"term", "terms"},
		{"attempts", "attempts"},
		{"states", "counts,newest"},
		{"runs", "runs"},
	} {
		if regexp.MustCompile(a.script).MatchString(script) {
			return append(strings.Split(a.topics, ","), "histories")
		}
	}
	return []string{"histories", "spread", "claim", "move", "load", "prune", "args", "values"}
}

var (
	luaToken = regexp.MustCompile(`--[^\n]*|'[^']*'|[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|==|~=|<=|>=|\.\.|\n|[ \t]+|.`)
	// luaWrite is a command of a line of its own.
	luaWrite   = regexp.MustCompile(`(?m)^ *(?:redis\.call\('(?:HSET|HDEL|HINCRBY|ZADD|ZREM|SADD|SREM|RPUSH|LPOP|LTRIM|DEL|RENAME|PUBLISH|INCR|SET)'|signal\()[^\n]*\)$`)
	luaLiteral = regexp.MustCompile(`^('[^']*'|[0-9]*)$`) // of a default: x or ''
	luaEnd     = map[string]bool{"and": true, "or": true, "not": true, "if": true, "elseif": true, "while": true, "then": true, "do": true, "return": true, "=": true, ",": true, "\n": true, "end": true}
)

// flawsOf are the flaws of a script.
func flawsOf(script, text string) (all []flaw) {
	add := func(what, to string) {
		all = append(all, flaw{script: script, what: what, from: text, to: to})
	}
	tokens := luaToken.FindAllString(text, -1)
	scan := func(at, step int) int { // to the end of an operand
		for depth := 0; at >= 0 && at < len(tokens); at += step {
			switch tok := tokens[at]; {
			case tok == "(" && step > 0 || tok == ")" && step < 0 || tok == "{" && step > 0 || tok == "}" && step < 0 || tok == "[" && step > 0 || tok == "]" && step < 0:
				depth++
			case strings.ContainsAny(tok, "(){}[]") && len(tok) == 1:
				if depth--; depth < 0 {
					return at
				}
			case depth == 0 && (luaEnd[tok] || strings.HasPrefix(tok, "--")):
				return at
			}
		}
		return at
	}
	seen := map[int]bool{}
	for i, tok := range tokens {
		from := i
		switch tok {
		case "==", "~=", "<", ">", "<=", ">=":
			from = scan(i-1, -1) + 1
		case "if", "elseif", "while", "not", "and", "or":
			from++
		default:
			continue
		}
		for from < len(tokens) && strings.TrimSpace(tokens[from]) == "" {
			from++
		}
		to := scan(from, +1)
		operand := strings.TrimSpace(strings.Join(tokens[from:to], ""))
		if seen[from] || luaLiteral.MatchString(operand) {
			continue
		}
		seen[from] = true
		for _, always := range []string{"true", "false"} {
			add(operand+" is "+always, strings.Join(tokens[:from], "")+"(("+operand+") "+map[string]string{"true": "or true", "false": "and false"}[always]+") "+strings.Join(tokens[to:], ""))
		}
	}
	for _, at := range luaWrite.FindAllStringIndex(text, -1) {
		add("without "+strings.TrimSpace(text[at[0]:at[1]]), text[:at[0]]+text[at[1]:])
	}
	return all
}
