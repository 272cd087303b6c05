// Package configtest runs annotated configurations: YAML documents with the expected problems beside their lines.
package configtest

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Suite describes the documents of a directory and their reader. A file has several documents, separated by "---". Each
// begins with a comment, its reason; further comments are
//
//	# want: <field>: <beginning of the message>   an expected problem, beside its line
//	# lenient                                     unknown fields are no errors
//	# beyond the schema                           a JSON schema cannot refuse the document
//
// A document without an expected problem is valid. It is read once more for each field with a value of a wrong type,
// and for each object with an unknown field: these must have problems.
type Suite struct {
	// Files is the pattern of their names.
	Files string
	// Schema refuses the same documents; nil for none.
	Schema *Schema
	// Type is that of the configuration: the schema has its fields, and no others; nil for a generated schema. Open are
	// the types of objects of any content in it.
	Type reflect.Type
	Open []reflect.Type
	// Read returns the problems of a JSON document. With strict, unknown fields are problems.
	Read func(t *testing.T, document []byte, strict bool) []sdk.Problem
	// Objects are the names of fields for objects of any content, Anything those for any JSON.
	Objects, Anything []string
}

const (
	wantComment    = "# want: "
	lenientComment = "# lenient"
	beyondComment  = "# beyond the schema"
)

// Load is Read for a function that returns a configuration and its problems.
func Load[T any](load func([]byte) (T, []sdk.Problem)) func(*testing.T, []byte, bool) []sdk.Problem {
	return func(_ *testing.T, document []byte, _ bool) []sdk.Problem {
		_, problems := load(document)
		return problems
	}
}

// Run runs all documents.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	if s.Type != nil {
		s.Schema.mustHaveFields(t, s.Type, s.Open)
	}
	files, err := filepath.Glob(s.Files)
	if err != nil || len(files) == 0 {
		t.Fatalf("expected files %s, but found %v, error %v", s.Files, files, err)
	}
	for _, file := range files {
		for document := range texts(t, file) {
			reason, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(document), "# "), "\n")
			t.Run(filepath.Base(file)+"/"+reason, func(t *testing.T) {
				t.Parallel()
				s.run(t, document)
			})
		}
	}
}

func texts(t testing.TB, file string) iter.Seq[string] {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitSeq(string(content), "\n---\n")
}

// Documents returns the documents of a file as JSON, for a fuzz test.
func Documents(t testing.TB, file string) [][]byte {
	t.Helper()
	var all [][]byte
	for text := range texts(t, file) {
		document, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, document)
	}
	return all
}

func (s Suite) run(t *testing.T, text string) {
	t.Helper()
	var want []string
	lenient, beyond := false, false
	for line := range strings.Lines(text) {
		lenient = lenient || strings.Contains(line, lenientComment)
		beyond = beyond || strings.Contains(line, beyondComment)
		if _, problem, ok := strings.Cut(line, wantComment); ok {
			want = append(want, strings.TrimSpace(problem))
		}
	}
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	MustFind(t, s.Read(t, document, !lenient), want)
	if s.Schema == nil {
		return
	}
	switch refused := s.Schema.Validate(t, document); {
	case len(want) == 0 && refused != nil:
		t.Errorf("the schema refuses it: %v", refused)
	case len(want) > 0 && refused == nil && !beyond && !lenient:
		t.Error("the schema accepts it")
	}
	if len(want) == 0 && !lenient {
		s.spoil(t, document)
	}
}

// MustFind fails unless the found problems are the wanted ones, each given by the beginning of "field: message".
func MustFind(t *testing.T, found []sdk.Problem, want []string) {
	t.Helper()
	var unexpected []string
	want = slices.Clone(want)
	for _, p := range found {
		text := p.Field + ": " + p.Message
		if p.Field == "" {
			text = p.Message
		}
		i := slices.IndexFunc(want, func(beginning string) bool { return strings.HasPrefix(text, beginning) })
		if i < 0 {
			unexpected = append(unexpected, text)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	if len(want)+len(unexpected) > 0 {
		t.Errorf("expected, but not found:\n%s\nfound, but not expected:\n%s",
			strings.Join(want, "\n"), strings.Join(unexpected, "\n"))
	}
}

// MustAgree fails unless an error of a job is about the problems of its configuration, and quotes no secret value of
// the documents, "hunter2".
func MustAgree(t *testing.T, problems []sdk.Problem, err error) {
	t.Helper()
	if (len(problems) > 0) != (err != nil) {
		t.Errorf("expected an error about the problems %v, but found %v", problems, err)
	}
	if err == nil {
		return
	}
	known, ok := errors.AsType[*sdk.Error](err)
	if !ok || known.Reason == "" || !slices.Contains(known.Codes, v1alpha1.ErrorConfigurationProblem) {
		t.Errorf("expected a problem of the configuration with a reason, but found %#v", err)
	}
	for _, p := range problems {
		unread := strings.Replace(p.Message, " field", " field "+strconv.Quote(p.Field), 1) // as the error names it
		said := strings.Contains(err.Error(), p.Message) || strings.Contains(err.Error(), unread)
		if p.Field == "" || p.Message == "" || !said {
			t.Errorf("expected a part of the error %v, but found %+v", err, p)
		}
	}
	if !strings.HasPrefix(err.Error(), "spec.config: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("expected an error about spec.config without values, but found %v", err)
	}
}
