package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/test/cases"
)

type answer func(*http.Request) (*http.Response, error)

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// told returns what plainSpeech makes of the answer of an API server to a body that was sent to a path.
func told(t *testing.T, path, sent string, code int, content string) string {
	t.Helper()
	next := answer(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(content)),
		}, nil
	})
	method := http.MethodPost
	if sent == "" {
		method = http.MethodDelete
	}
	res, err := (&plainSpeech{next: next}).RoundTrip(request(t.Context(), t, method, path, sent))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func request(ctx context.Context, t *testing.T, method, path, sent string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "https://target.example.org"+path, strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func rewritten(t *testing.T, path, sent string, given metav1.Status) metav1.Status {
	t.Helper()
	given.Status = metav1.StatusFailure
	content, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(told(t, path, sent, int(given.Code), string(content))), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// opaque is a value that JSON cannot hold, as the internal types of API servers are.
type opaque struct {
	Name string
	Args []string
	Next *opaque
	Call func()
}

// TestFieldErrors: an error about fields tells the field, the kind of error and the explanation, once.
// Rule (SECURITY.md#secrets): An API server's error about a field shows field and explanation, and not the value.
func TestFieldErrors(t *testing.T) {
	t.Parallel()
	at := field.NewPath("spec").Child("template")
	template := map[string]any{"env": []any{map[string]any{"name": "A", "value": "hunter22: \"x\"}\nfield: wrong"}}}
	for name, test := range map[string]struct {
		err  *field.Error
		want string
	}{
		"object":        {field.Invalid(at, template, "field is immutable"), "field is immutable"},
		"list":          {field.Invalid(at, []string{"hunter22", "b: c"}, "must be one"), "must be one"},
		"text":          {field.Invalid(at, "hunter22\": field: \"b", "must be a: b"), "must be a: b"},
		"number":        {field.Invalid(at, int64(8675309), "must be less than 5"), "must be less than 5"},
		"null":          {field.Invalid(at, nil, "must be set"), "must be set"},
		"not explained": {field.Invalid(at, template, ""), "Invalid value"},
		"without value": {field.Invalid(at, field.OmitValueType{}, "must be: set"), "must be: set"},
		"struct":        {field.Invalid(at, opaque{Name: "hunter22", Args: []string{"a: b", "}"}}, "is wrong"), "is wrong"},
		"pointer":       {field.Invalid(at, &opaque{Name: "hunter22"}, "is wrong"), "is wrong"},
		"structs":       {field.Invalid(at, []opaque{{Name: "hunter22"}}, "is wrong"), "is wrong"},
		"map":           {field.Invalid(at, map[string]opaque{"a": {Name: "hunter22"}}, "is wrong"), "is wrong"},
		"unsupported": {
			field.NotSupported(at, "hunter22", []string{"TCP", "UDP"}),
			`Unsupported value: supported values: "TCP", "UDP"`,
		},
		"duplicate": {field.Duplicate(at, template), "Duplicate value"},
		"not found": {field.NotFound(at, "hunter22"), "Not found"},
		"too many":  {field.TooMany(at, 12, 10), "Too many: must have at most 10 items"},
		"required":  {field.Required(at, "is needed"), "Required value: is needed"},
		"too long":  {field.TooLong(at, "hunter22", 5), "Too long: may not be more than 5 bytes"},
		"forbidden": {field.Forbidden(at, "no"), "Forbidden: no"},
		"forbidden diff": {
			field.Forbidden(at, "may not change\n  core.PodSpec{\n- Env: \"hunter22\",\n  }"), "Forbidden: may not change",
		},
		"in explanation": {
			field.Invalid(at, "x", `it is {"env":[{"value":"hunter22"}]}, which is wrong`), "it is {…}, which is wrong",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := apierrors.NewInvalid(
				schema.GroupKind{Group: "batch", Kind: "Job"}, "init", field.ErrorList{test.err, test.err},
			).ErrStatus
			found := rewritten(t, "/apis/batch/v1/namespaces/n/jobs", `{"kind":"Job"}`, given)
			if want := `Job.batch "init" is invalid: spec.template: ` + test.want; found.Message != want {
				t.Errorf("expected %q, but found %q", want, found.Message)
			}
			if found.Reason != given.Reason || found.Code != given.Code || found.Details.Kind != "Job" ||
				found.Details.Name != "init" ||
				found.Details.Causes[0].Type != given.Details.Causes[0].Type || found.Details.Causes[0].Field != at.String() {
				t.Errorf("expected reason, code and causes to stay, but found %+v", found)
			}
			for _, c := range found.Details.Causes {
				if strings.Contains(c.Message, "hunter22") {
					t.Errorf("a value is in a cause: %s", c.Message)
				}
			}
		})
	}
}

// TestRefusals: other texts keep the words of their authors, without quotes.
// Rule (SECURITY.md#secrets): Errors of API servers and webhooks quote no object.
func TestRefusals(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/refusals.yaml", func(t *testing.T, c struct {
		Path, Sent string
		// Code, Reason, Message and Details are the status; Want is the message if it is told otherwise.
		Code          int32
		Reason        metav1.StatusReason
		Message, Want string
		Details       *metav1.StatusDetails
	},
	) {
		given := metav1.Status{Code: c.Code, Reason: c.Reason, Message: c.Message, Details: c.Details}
		if found, want := rewritten(t, c.Path, c.Sent, given), cmp.Or(c.Want, c.Message); found.Message != want {
			t.Errorf("expected\n%s, but found\n%s", want, found.Message)
		}
	}, "$SECRET", `{"kind":"Secret","metadata":{"name":"s"},"data":{"password":"aHVudGVyMjI="}}`,
		"$POD", `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"app","image":"nginx:1",`+
			`"env":[{"name":"A","value":"hunter22"}]}]}}`)
}

// TestRefusalsAreBounded: also what is no answer of an API server is.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	if found := told(t, "/", "", 502, strings.Repeat("word ", 1<<14)); len(found) > 3<<10 {
		t.Errorf("found a text of %d bytes", len(found))
	}
}

// FuzzRefusals: no answer of an API server stops a job.
func FuzzRefusals(f *testing.F) {
	f.Add("failed to create typed patch object (a): errors:\n .a: expected map, got &{[x]}", `Invalid value: map[a]b{`)
	f.Add("map[a]{", "Invalid value: a.B{[(")
	f.Fuzz(func(t *testing.T, message, cause string) {
		for _, code := range []int32{400, 403, 422, 500} {
			rewritten(t, "/", `{"a":"b"}`, metav1.Status{Code: code, Reason: "Invalid", Message: message,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: cause}}}})
		}
	})
}

// TestNames: an error without the name of its object gets it for callers without names in their own errors.
func TestNames(t *testing.T) {
	t.Parallel()
	unasked := func(ctx context.Context) context.Context { return ctx }
	for name, c := range map[string]struct {
		ctx           func(context.Context) context.Context
		code          int32
		message, want string
	}{
		"new":      {WithNames, 400, "no", `"p": no`},
		"existing": {WithNames, 400, "no", `"q": no`},
		"named":    {WithNames, 400, `name "q" is bad`, `name "q" is bad`},
		"others":   {WithNames, 403, "no", "no"},
		"unasked":  {unasked, 400, "no", "no"},
	} {
		method, path, described := http.MethodPatch, "/api/v1/namespaces/n/pods/q", `pods "q"`
		if name == "new" {
			method, path, described = http.MethodPost, "/api/v1/namespaces/n/pods", `pods "p"`
		}
		req := request(c.ctx(t.Context()), t, method, path, `{"kind":"Pod","metadata":{"name":"p"}}`)
		status := metav1.Status{Code: c.code, Message: c.message}
		if c.code == http.StatusBadRequest {
			status.Reason = metav1.StatusReasonBadRequest
		}
		newRefusal(req).rewriteStatus(&status)
		if status.Message != c.want || Describe(req) != described {
			t.Errorf("%s: expected %q of %s, but found %q of %s", name, c.want, described, status.Message, Describe(req))
		}
	}
}
