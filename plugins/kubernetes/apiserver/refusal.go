package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

const (
	// maxAnswer bounds the read bytes of an error answer; it may quote an object several times.
	maxAnswer = 16 << 20
	// maxText bounds a text of an API server or a webhook, in bytes, and maxCauses the fields in a message.
	maxText, maxCauses = 2 << 10, 10
)

// plainSpeech is a round tripper whose errors show no quotes of an object's content by an API server or a webhook. An
// error about a field becomes the field, the kind of the error and the explanation. The own words of a webhook or a
// policy stay, bounded and without values of the sent object. Reasons, codes, and the types and fields of causes stay.
// It also implements WithStrictFields, WithWarnings and WithNames.
type plainSpeech struct{ next http.RoundTripper }

var _ http.RoundTripper = (*plainSpeech)(nil)

// RoundTrip implements http.RoundTripper.
func (t *plainSpeech) RoundTrip(req *http.Request) (*http.Response, error) {
	req = strict(req)
	res, err := t.next.RoundTrip(req)
	if err == nil {
		tellWarnings(req, res)
	}
	if err != nil || res.StatusCode < http.StatusBadRequest ||
		strings.Contains(res.Header.Get("Content-Type"), "protobuf") { // the answer to a read of metadata
		return res, err
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close() // it was read
	if err != nil {
		return nil, fmt.Errorf("read the answer of the target cluster: %w", err)
	}
	if content, err = newRefusal(req).rewrite(content); err != nil {
		return nil, err
	}
	res.ContentLength = int64(len(content))
	res.Header.Set("Content-Length", strconv.Itoa(len(content)))
	res.Body = io.NopCloser(bytes.NewReader(content))
	return res, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *plainSpeech) WrappedRoundTripper() http.RoundTripper { return t.next }

type (
	hideKey  struct{}
	namesKey struct{}
)

// WithHidden returns a context in which hide removes secrets from the texts of API servers and webhooks.
func WithHidden(ctx context.Context, hide func(string) string) context.Context {
	return context.WithValue(ctx, hideKey{}, hide)
}

// WithNames returns a context in which an error about a bad request names the object, for a caller whose own errors do
// not.
func WithNames(ctx context.Context) context.Context { return context.WithValue(ctx, namesKey{}, true) }

// refusal is a refused request, or a request with a warning.
type refusal struct {
	// hide removes secrets of the deploy item from a text.
	hide func(string) string
	// sent is the sent object; nil if unreadable.
	sent map[string]any
	// ofSecret means a request about a Secret.
	ofSecret bool
	// name is that of the object for an error without it; empty for none.
	name string
}

func newRefusal(req *http.Request) *refusal {
	r := &refusal{hide: func(text string) string { return text }}
	if hide, ok := req.Context().Value(hideKey{}).(func(string) string); ok {
		r.hide = hide
	}
	r.ofSecret = strings.Contains(req.URL.Path+"/", "/secrets/")
	r.sent = sentBy(req)
	if named, _ := req.Context().Value(namesKey{}).(bool); named {
		r.name = subject(req, r.sent)
	}
	return r
}

// sentBy returns the object in a request; nil if it has none.
func sentBy(req *http.Request) (sent map[string]any) {
	if req.GetBody == nil {
		return nil
	}
	if body, err := req.GetBody(); err == nil {
		decoder := json.NewDecoder(body)
		decoder.UseNumber()
		_ = decoder.Decode(&sent) // other JSON than an object, such as a list of changes to managed fields, has no content
		_ = body.Close()          // it is in memory
	}
	return sent
}

// subject returns the name of a request's object: at the end of the path, or for a new one in the body.
func subject(req *http.Request, sent map[string]any) string {
	if req.Method == http.MethodPost {
		if name, _, _ := unstructured.NestedString(sent, "metadata", "name"); name != "" {
			return name
		}
	}
	return path.Base(req.URL.Path)
}

// Describe returns the resource and name of a request's object, for messages.
func Describe(req *http.Request) string {
	resource := path.Base(req.URL.Path)
	if req.Method != http.MethodPost {
		resource = path.Base(path.Dir(req.URL.Path))
	}
	return fmt.Sprintf("%s %q", resource, subject(req, sentBy(req)))
}

// rewrite returns an answer without quotes.
func (r *refusal) rewrite(content []byte) ([]byte, error) {
	status := metav1.Status{}
	if json.Unmarshal(content, &status) != nil || status.Status != metav1.StatusFailure {
		return []byte(r.text(withoutQuotes(ownWords(string(content))))), nil //nolint:nilerr // no Status is a text
	}
	r.rewriteStatus(&status)
	content, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("write the answer of the target cluster: %w", err)
	}
	return content, nil
}

var (
	// denied is the text of an API server for the denial by a webhook.
	denied = regexp.MustCompile(`^admission webhook "[^"]*" denied the request: `)
	// unfit is the text of server-side apply for an object unfit for the schema of its kind. The API server gives no
	// reason, as if it had failed itself.
	unfit = regexp.MustCompile(`(?s)^failed to create typed patch object \([^)]*\): (?:errors:\s*)?(.*)`)
	lines = regexp.MustCompile(`\s*\n\s*`)
)

func (r *refusal) rewriteStatus(s *metav1.Status) {
	var causes []metav1.StatusCause
	if s.Details != nil {
		causes = s.Details.Causes
	}
	ofFields := len(causes) > 0 && s.Reason == metav1.StatusReasonInvalid
	for i, c := range causes {
		text := explanation(c.Message)
		ofFields = ofFields && text != ""
		if text == "" {
			text = ownWords(c.Message)
		}
		if c.Field == "patch" { // the explanation may quote the patched object
			text = withoutQuotes(text)
		}
		causes[i].Message = r.text(text)
	}
	unreadable := unfit.FindStringSubmatch(s.Message)
	switch {
	case ofFields:
		s.Message = denied.FindString(s.Message) + invalid(s.Details)
	case s.Code == http.StatusInternalServerError && unreadable != nil:
		s.Code, s.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
		s.Message = r.text(withoutQuotes(lines.ReplaceAllString(ownWords(unreadable[1]), ", ")))
	case s.Reason == metav1.StatusReasonBadRequest && !denied.MatchString(s.Message),
		s.Code >= http.StatusInternalServerError && !strings.Contains(s.Message, "webhook"):
		s.Message = r.text(withoutQuotes(ownWords(s.Message)))
	default:
		s.Message = r.text(ownWords(s.Message))
	}
	if strings.Contains(s.Message, `unknown field "`) || strings.Contains(s.Message, `duplicate field "`) {
		s.Message += "; correct these fields or leave them out"
	}
	if r.name != "" && s.Reason == metav1.StatusReasonBadRequest && !strings.Contains(s.Message, strconv.Quote(r.name)) {
		s.Message = fmt.Sprintf("%q: %s", r.name, s.Message)
	}
}

// invalid returns the errors about the fields of an object, each text once.
func invalid(d *metav1.StatusDetails) string {
	var all []string
	for _, c := range d.Causes {
		text := c.Message
		if c.Field != "" {
			text = c.Field + ": " + text
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	what := "the request"
	if d.Kind != "" {
		what = fmt.Sprintf("%s %q", schema.GroupKind{Group: d.Group, Kind: d.Kind}, d.Name)
	}
	return what + " is invalid: " + object.Enumerate(all, "; ", maxCauses)
}

// text returns a text without values of the sent object, and without secrets, bounded.
func (r *refusal) text(text string) string {
	hidden := redact.New(nil)
	if r.ofSecret {
		hidden.LearnSecret(r.sent)
	}
	hidden.LearnContent(r.sent)
	text = r.hide(hidden.Hide(text))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + omitted
	}
	return text
}
