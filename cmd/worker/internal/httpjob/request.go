package httpjob

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// Request is what a job sends, and what it expects. It may hold secrets: it is not
// for logs.
type Request struct {
	Method, URL string
	// URLFile holds the URL instead, as a secret: it is read at the start of each run.
	URLFile string
	Headers []Header
	// Body is empty for none. BodyFile is read instead, at the start of each run, or
	// Template is filled in with the arguments of the run.
	Body     string
	BodyFile string
	Template string
	// Expect are the answers that are success; none means 2xx.
	Expect []Codes
	TLS    TLS
	// Secrets are texts of the request that no error may show, although an answer
	// may repeat them. Those of files are added to them.
	Secrets []string
}

// Header is a header of a request: its value, or the file that holds it.
type Header struct {
	Name  string
	Value string
	// File is read at the start of each run, so that a value may change. One line
	// end behind the value is not a part of it.
	File   string
	Prefix string // goes before what is in File, as in "Bearer "
}

// Codes are the status codes from First to Last.
type Codes struct{ First, Last int }

func (c Codes) String() string {
	if c.First == c.Last {
		return strconv.Itoa(c.First)
	}
	return fmt.Sprintf("%dxx", c.First/100)
}

// ParseCodes reads one code, such as 404, or all that begin with a digit, such as
// 2xx. Codes below 200 are no final answers.
func ParseCodes(s string) (Codes, error) {
	if class, ok := strings.CutSuffix(s, "xx"); ok {
		if n, err := strconv.Atoi(class); err == nil && len(class) == 1 && n >= 2 && n <= 5 {
			return Codes{100 * n, 100*n + 99}, nil
		}
	}
	if n, err := strconv.Atoi(s); err == nil && len(s) == 3 && n >= 200 && n <= 599 {
		return Codes{n, n}, nil
	}
	return Codes{}, errors.New("expected a status code from 200 to 599, or 2xx, 3xx, 4xx or 5xx")
}

// expects reports whether the answer is success.
func (r Request) expects(code int) bool {
	return slices.ContainsFunc(r.expected(), func(c Codes) bool { return code >= c.First && code <= c.Last })
}

func (r Request) expected() []Codes {
	if len(r.Expect) == 0 {
		return []Codes{{200, 299}}
	}
	return r.Expect
}

// maxBody is the largest body that a file may hold.
const maxBody = 1 << 20

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// What the client or the worker sets, or what concerns one connection.
var reserved = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// CheckHeader says what is wrong with the name of a header.
func CheckHeader(name string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case len(name) > 200 || !headerName.MatchString(name):
		return errors.New("expected a header's name such as Authorization")
	case strings.HasPrefix(canonical, "Cronlease-"):
		return errors.New("expected another name: those that begin with Cronlease- are set by the worker")
	case slices.Contains(reserved, canonical):
		return errors.New("expected another name: the worker sets this one itself, or it is about the connection")
	}
	return nil
}

// CheckHeaderValue says what is wrong with the value of a header, and shows none
// of it.
func CheckHeaderValue(value string) error {
	for _, b := range []byte(value) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return errors.New("has a line break or another control character: expected one line of text")
		}
	}
	return nil
}

// CheckURL says what is wrong with a URL, and shows none of it.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !goodPort(u.Port()) {
		return errors.New(`expected an absolute URL such as "http://127.0.0.1:8080/ping", http or https`)
	}
	return nil
}

func goodPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// SettingError is of a file that a setting of the request names.
type SettingError struct {
	Setting string // as in the configuration, such as "ca"
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *SettingError) Unwrap() error { return e.Err }

// Check says what is wrong with the files of the request, as they are now: a
// [SettingError] for each.
func (r Request) Check() []error {
	parts := []Request{{URLFile: r.URLFile}, {BodyFile: r.BodyFile}, {TLS: TLS{CA: r.TLS.CA}}, {TLS: TLS{Cert: r.TLS.Cert, Key: r.TLS.Key}}}
	for _, h := range r.Headers {
		parts = append(parts, Request{Headers: []Header{h}})
	}
	var wrong []error
	for _, part := range parts {
		_, err := part.ready()
		if err == nil {
			_, err = (&connections{files: part.TLS}).client()
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// ready returns the request with what its files hold now.
func (r Request) ready() (Request, error) {
	r.Headers, r.Secrets = slices.Clone(r.Headers), slices.Clone(r.Secrets)
	if r.URLFile != "" {
		text, err := plainfile.Text(r.URLFile, plainfile.MostText)
		if err == nil {
			if err = CheckURL(text); err != nil {
				err = fmt.Errorf("%s: %w", r.URLFile, err)
			}
		}
		if err != nil {
			return r, &SettingError{"url", err}
		}
		u, _ := url.Parse(text) // it was checked
		password, _ := u.User.Password()
		r.URL, r.Secrets = text, append(r.Secrets, text, u.RequestURI(), strings.TrimPrefix(u.Path, "/"), u.RawQuery, password)
	}
	for i, h := range r.Headers {
		if h.File == "" {
			continue
		}
		value, err := plainfile.Text(h.File, plainfile.MostText)
		if err != nil {
			return r, &SettingError{"headers", fmt.Errorf("%s: %w", h.Name, err)}
		}
		if err := CheckHeaderValue(value); err != nil {
			return r, &SettingError{"headers", fmt.Errorf("%s: %s: %w", h.Name, h.File, err)}
		}
		r.Headers[i].Value = h.Prefix + value
		r.Secrets = append(r.Secrets, value)
	}
	if r.BodyFile != "" {
		data, err := plainfile.Text(r.BodyFile, maxBody)
		if err != nil {
			return r, &SettingError{"body", err}
		}
		r.Body = data
	}
	return r, nil
}

// minSecret is how long a secret is at least. Anything shorter is not hidden: it
// would make an answer unreadable, and protect little.
const minSecret = 6

// longestSecret is how much has to be read behind the end of what is shown.
func (r Request) longestSecret() int {
	most := 0
	for _, s := range r.Secrets {
		most = max(most, len(s))
	}
	return most
}

// hide takes the secrets out of what a server has said.
func (r Request) hide(text string) string {
	secrets := slices.Clone(r.Secrets)
	// A longer one first, since a shorter one may be a part of it.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "(hidden)")
		}
	}
	return text
}
