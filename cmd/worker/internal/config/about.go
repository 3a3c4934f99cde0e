package config

import (
	"path/filepath"
	"regexp"
	"strings"
)

// hidden stands for what may be a secret.
const hidden = "(hidden)"

var (
	secretName = `[\w-]*(?:pass(?:word|wd|phrase)?|secret|token|credentials?|auth|api-?_?key|access-?_?key|private-?_?key)[\w-]*`
	// secretValue is a secret behind its name: --password=x, TOKEN=x, or a header.
	secretValue = regexp.MustCompile(`(?i)(` + secretName + `["']?\s*=\s*["']?|(?:authorization|cookie|` + secretName + `)["']?:\s*(?:(?:bearer|basic|token)\s+)?["']?)([^\s"']+)`)
	// secretFlag is a flag whose value comes next.
	secretFlag = regexp.MustCompile(`(?i)^-{1,2}` + secretName + `$`)
	userInURL  = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*):[^/\s@]+@`)
	hostOfURL  = regexp.MustCompile(`^([a-zA-Z]+://)(?:[^/?#]*@)?([^/?#]*)(.*)$`)
)

// aboutCommand says what a program does, for people: its command as the file has it, so that a variable
// stands there by its name, and without what looks like a secret.
func aboutCommand(command []string) string {
	words := make([]string, len(command))
	takes := false // the word before takes this one as its secret
	for i, word := range command {
		words[i] = shellWord(hideSecrets(word))
		switch program := filepath.Base(command[0]); {
		case takes && !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "${"),
			i > 0 && strings.HasPrefix(word, "-p") && len(word) > 2 && (strings.HasPrefix(program, "mysql") || strings.HasPrefix(program, "mariadb")):
			words[i] = hidden
		}
		takes = secretFlag.MatchString(word)
	}
	return strings.Join(words, " ")
}

func hideSecrets(text string) string {
	text = userInURL.ReplaceAllString(text, "$1:"+hidden+"@")
	return secretValue.ReplaceAllStringFunc(text, func(found string) string {
		part := secretValue.FindStringSubmatch(found)
		if strings.HasPrefix(part[2], "${") || strings.HasPrefix(part[2], "$") {
			return found
		}
		return part[1] + hidden
	})
}

// hostOf is the host of a URL in which variables may stand. What comes after it often is a secret.
func hostOf(raw string) string {
	if strings.HasPrefix(raw, "${") {
		name, _, _ := strings.Cut(raw, "}")
		return name + "}"
	}
	part := hostOfURL.FindStringSubmatch(raw)
	switch {
	case part == nil:
		return hidden
	case strings.Trim(part[3], "/") == "":
		return part[1] + part[2]
	}
	return part[1] + part[2] + "/…"
}

// shellWord is an argument as a shell would take it, for people.
func shellWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\;&|<>*?#~`") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
