package apiserver

import (
	"context"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

type (
	strictKey   struct{}
	warningsKey struct{}
)

// WithStrictFields returns a context in which API servers refuse to write objects with unknown or duplicate fields.
// Otherwise they drop them and warn.
func WithStrictFields(ctx context.Context) context.Context {
	return context.WithValue(ctx, strictKey{}, true)
}

// WithWarnings returns a context in which tell gets the warnings of API servers about writes and their dry runs, from
// the goroutine of the request.
func WithWarnings(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, tell)
}

// strict returns a request with the validation of fields from its context.
func strict(req *http.Request) *http.Request {
	wanted, _ := req.Context().Value(strictKey{}).(bool)
	if !wanted || req.Body == nil || req.Method == http.MethodDelete {
		return req
	}
	query := req.URL.Query()
	query.Set("fieldValidation", metav1.FieldValidationStrict)
	asked := *req
	asked.URL = new(url.URL)
	*asked.URL = *req.URL
	asked.URL.RawQuery = query.Encode()
	return &asked
}

// tellWarnings passes on the warnings of an answer.
func tellWarnings(req *http.Request, res *http.Response) {
	tell, ok := req.Context().Value(warningsKey{}).(func(string))
	headers := res.Header.Values("Warning")
	if !ok || len(headers) == 0 || req.Method == http.MethodGet {
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(headers) // an unreadable one is ignored
	r := newRefusal(req)
	for _, w := range warnings {
		const miscellaneous = 299 // the only code of API servers
		if w.Code == miscellaneous {
			tell(r.text(ownWords(w.Text)))
		}
	}
}
