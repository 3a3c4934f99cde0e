package httpjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/cronlease/cronlease/jobs"
)

// templateFuncs are what a template has beside what all have. json writes a value as JSON,
// a text with its quotes.
var templateFuncs = template.FuncMap{"json": func(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}}

// parseTemplate reads a body that is made from the arguments of a run.
func parseTemplate(text string) (*template.Template, error) {
	return template.New("body").Option("missingkey=error").Funcs(templateFuncs).Parse(text)
}

// CheckTemplate says what is wrong with the text of a template.
func CheckTemplate(text string) error {
	_, err := parseTemplate(text)
	return err
}

// CheckNoticeTemplate says which key a template asks for that notices do not have. It judges
// nothing else: what a template does with a value may depend on the value.
func CheckNoticeTemplate(text string) error {
	for _, event := range []jobs.NoticeEvent{jobs.NoticeFailure, jobs.NoticeRecovery, jobs.NoticeMissed, jobs.NoticeTest} {
		args, err := json.Marshal(jobs.Notice{Event: event})
		if err != nil {
			return err
		}
		if _, err := (Request{Template: text}).fill(jobs.Run{Args: args}); err != nil && strings.Contains(err.Error(), "map has no entry for key") {
			return err
		}
	}
	return nil
}

// fill is the body of a run.
func (r Request) fill(run jobs.Run) ([]byte, error) {
	parsed, err := parseTemplate(r.Template)
	if err != nil {
		return nil, err
	}
	if run.Args == nil {
		return nil, errors.New("its template needs arguments, and the run has none")
	}
	var args any
	decoder := json.NewDecoder(bytes.NewReader(run.Args))
	decoder.UseNumber() // as they are written
	if err := decoder.Decode(&args); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := parsed.Execute(&body, args); err != nil {
		return nil, err
	}
	if body.Len() > maxBody {
		return nil, fmt.Errorf("%d bytes: at most %d", body.Len(), maxBody)
	}
	return body.Bytes(), nil
}
