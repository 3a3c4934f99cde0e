package web

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/cronlease/cronlease/internal/plainfile"
)

const (
	maxPasswordFile = 1 << 20
	// HashCost is that of new hashes. One takes a quarter of a second.
	HashCost = 12
	// maxHashCost is the highest that is accepted: a second of work for each login.
	maxHashCost = 14
)

var (
	errWrongPassword = errors.New("wrong user or password")
	errTooMany       = errors.New("too many logins have failed: wait a minute")
)

// passwords are those of a file. It has a line for each user, as htpasswd -B makes it: the
// name, a colon, and the password's bcrypt hash. Empty lines and those that begin with # do not
// count. It is read for each request, so that a change counts at once. While it cannot be
// read, or has a fault, nobody can log in.
type passwords struct {
	path   string
	key    []byte
	limits limits
	// turn has room for one: hashing must not take all processors from the jobs.
	turn chan struct{}

	mu     sync.Mutex // guards all below
	data   []byte     // of the file
	hashes map[string]string
	// good are the users whose password was right, each with a code for the password and
	// the hash. So a hash is computed once, and not for each request.
	good map[string][]byte
}

func newPasswords(path string) *passwords {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &passwords{path: path, key: key, good: map[string][]byte{}, limits: newLimits(), turn: make(chan struct{}, 1)}
}

// readPasswords reads the hashes of a file, by user. No error shows any of them.
func readPasswords(path string) (map[string]string, error) {
	data, err := plainfile.Read(path, maxPasswordFile)
	if err != nil {
		return nil, err
	}
	return parsePasswords(path, data)
}

func parsePasswords(path string, data []byte) (map[string]string, error) {
	hashes := map[string]string{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", path, number, fmt.Sprintf(format, args...))
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || checkName(name) != nil {
			return nil, wrong("expected NAME:HASH, as worker password prints it")
		}
		if _, twice := hashes[name]; twice {
			return nil, wrong("the user %q has a line before this one", name)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case err != nil:
			return nil, wrong("expected a bcrypt hash behind the name, as worker password prints it")
		case cost < bcrypt.DefaultCost || cost > maxHashCost:
			return nil, wrong("a hash of cost %d: expected one from %d to %d", cost, bcrypt.DefaultCost, maxHashCost)
		}
		hashes[name] = hash
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%s: no user: expected lines such as worker password prints them", path)
	}
	return hashes, nil
}

// hash returns the hash of a user, or one that no password has, so that both take as long.
func (p *passwords) hash(name string) (hash string, known bool, err error) {
	data, err := plainfile.Read(p.path, maxPasswordFile)
	if err != nil {
		return "", false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hashes == nil || !bytes.Equal(data, p.data) {
		hashes, err := parsePasswords(p.path, data)
		if err != nil {
			return "", false, err
		}
		p.data, p.hashes = data, hashes
		// The others need not log in again: they might not get a turn while a client tries passwords. A
		// code is of one hash, and counts no more for another.
		maps.DeleteFunc(p.good, func(name string, _ []byte) bool { return hashes[name] == "" })
	}
	if hash, known = p.hashes[name]; known {
		return hash, true, nil
	}
	for _, any := range p.hashes { // its cost is like those of the others
		return any, false, nil
	}
	return "", false, errWrongPassword
}

// check says what keeps a user from logging in: errWrongPassword, errTooMany, or what is wrong
// with the file.
func (p *passwords) check(ctx context.Context, from netip.Addr, name, password string) error {
	hash, known, err := p.hash(name)
	if err != nil {
		return err
	}
	code := p.code(name, hash, password)
	p.mu.Lock()
	good := known && hmac.Equal(p.good[name], code)
	p.mu.Unlock()
	if good {
		return nil
	}
	if !p.limits.allow(from) {
		return errTooMany
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !known {
		return errWrongPassword
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good[name] = code
	return nil
}

// code stands for a password without telling it.
func (p *passwords) code(name, hash, password string) []byte {
	mac := hmac.New(sha256.New, p.key)
	for _, part := range []string{name, hash, password} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return mac.Sum(nil)
}

// Hash returns the line of a user for a file of passwords.
func Hash(name, password string) (string, error) {
	const most = 72 // what bcrypt looks at
	switch err := checkName(name); {
	case err != nil:
		return "", err
	case strings.ContainsAny(name, ":#") || strings.TrimSpace(name) != name:
		return "", errors.New("expected a user's name without : and #, and without spaces around it")
	case len(password) < 8 || len(password) > most:
		return "", fmt.Errorf("expected a password of 8 to %d bytes", most)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), HashCost)
	return name + ":" + string(hash), err
}

func isPrintable(text string) bool {
	// Some letters are shown as nothing, so that one user would look like another.
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
	}) < 0
}
