package sqltext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// plainJSON drops the characters that JSON has beside names.
func plainJSON(r rune) rune {
	if strings.ContainsRune(`{}[],"=`, r) {
		return -1
	}
	return r
}

func FuzzRender(f *testing.F) {
	f.Add("billing")
	f.Add("it's")
	f.Add("a?b\\")
	f.Add(`{"id":"a.1","granted":17,"bell":"x=/h:1"}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got := sqltext.Parse("<?>").Render(text)
		if plain := "<_binary'" + text + "'>"; got == plain {
			// A name, or JSON without anything that would have to be escaped.
			if name := strings.Trim(strings.Map(plainJSON, text), "-"); name != "" && store.CheckName("x", "x"+name[:min(len(name), 100)]) != nil {
				t.Errorf("%q was written as it is", text)
			}
		} else if hex := fmt.Sprintf("<x'%x'>", text); got != hex {
			t.Errorf("%q became %s", text, got)
		}
	})
}

// A statement goes out complete: with all its values, and with all names replaced.
func TestHalfAStatementPanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"a value too few":       func() { sqltext.Parse("? ?").Render(1) },
		"a value too many":      func() { sqltext.Parse("?").Render(1, 2) },
		"a value of no type":    func() { sqltext.Parse("?").Render(1.5) },
		"a name not replaced":   func() { sqltext.Parse("SELECT 1 FROM {lease}") },
		"a name half replaced":  func() { sqltext.Parse("SELECT 1 FROM lease}") },
		"values without places": func() { sqltext.Parse("SELECT 1").Render(1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"SELECT 1":                       sqltext.Parse("\nSELECT 1 ").Render(),
		"1,0,-2":                         sqltext.Parse("?,?,?").Render(true, false, int64(-2)),
		"IN (_binary'a',(1,_binary'b'))": sqltext.Parse("IN (?)").Render(sqltext.List{"a", sqltext.Row{1, "b"}}),
		"VALUES /*!80019 ROW*/(1),/*!80019 ROW*/(2)": sqltext.Parse("VALUES ?").Render(sqltext.Values{{1}, {2}}),
		"x = 7":                             sqltext.Parse("x = ?").Render(sqltext.ByName{{"a", 7}, {"b", 7}}),
		"x = IF(name<_binary'b',7,8)":       sqltext.Parse("x = ?").Render(sqltext.ByName{{"a", 7}, {"b", 8}}),
		"(SELECT _binary'?') AND x = x'27'": sqltext.Parse("(?) AND x = ?").Render(sqltext.Raw("SELECT _binary'?'"), "'"),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
