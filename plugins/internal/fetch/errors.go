package fetch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/httperror"
)

// Kind is the kind of an error. It decides whether a retry can help.
type Kind string

// The kinds of errors.
const (
	// Invalid: the content, or a reference to it, has to be changed.
	Invalid Kind = "Invalid"
	// TooLarge: the content is larger than allowed.
	TooLarge Kind = "TooLarge"
	// DigestMismatch: the content has another digest than expected.
	DigestMismatch Kind = "DigestMismatch"
	// Unauthorized: the server refuses the credentials.
	Unauthorized Kind = "Unauthorized"
	// CredentialsMissing: the server wants credentials and there are none.
	CredentialsMissing Kind = "CredentialsMissing"
	// Panic: a mistake in the deployer.
	Panic Kind = "Panic"
	// CredentialsInvalid: the credentials cannot be used. A retry may help, as for all kinds below.
	CredentialsInvalid Kind = "CredentialsInvalid"
	// NotFound: there is no such content yet.
	NotFound Kind = "NotFound"
	// Unavailable: no answer, or one to try again.
	Unavailable Kind = "Unavailable"
	// CacheFailed: the disk.
	CacheFailed Kind = "CacheFailed"
)

// Codes returns the codes of Landscaper for an error of the kind; none if a retry may help.
func (k Kind) Codes() []v1alpha1.ErrorCode {
	switch k {
	case Invalid, TooLarge, DigestMismatch, CredentialsMissing:
		return []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	case Unauthorized:
		return []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized}
	case Panic:
		return []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}
	default:
		return nil
	}
}

// Error is an error about fetching content. Its text is for users: it has no secrets, and no text of a server.
type Error struct {
	Kind Kind
	Err  error
}

// Errorf returns an *Error. The format is that of fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Explain returns the *Error in the chain of an error, or one of the kind Unavailable for any other, taken for an
// error of the connection.
func Explain(err error) *Error {
	if found, ok := errors.AsType[*Error](err); ok {
		return found
	}
	return &Error{Kind: Unavailable, Err: connectionError(err)}
}

// connectionError returns an error of net/http without the address, because it may have a secret in it. An error
// beyond the connection is replaced: it quotes the server's answer, and this must not get into the status of a deploy
// item, because its author may have no access to the server.
func connectionError(err error) error {
	var certificate *tls.CertificateVerificationError
	if found, ok := errors.AsType[*Error](err); ok {
		return found
	}
	if errors.As(err, &certificate) {
		return fmt.Errorf("the certificate of the server is not trusted: %w; add its private authority to the "+
			"credentials for its address (customCAData), or, for a registry, have the operator add it", certificate.Err)
	}
	return httperror.Cause(err)
}

// Body reads from a source and turns its errors into an *Error.
type Body struct {
	// From is the source.
	From io.Reader
	// Explain returns the *Error for an error of From other than io.EOF.
	Explain func(error) error
}

// Read implements io.Reader.
func (b Body) Read(p []byte) (int, error) {
	n, err := b.From.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it as it is
		err = b.Explain(err)
	}
	return n, err
}

// bodyOf is the body of an answer.
func bodyOf(from io.Reader) Body {
	return Body{From: from, Explain: func(err error) error {
		return Errorf(Unavailable, "the response broke off: %w", connectionError(err))
	}}
}

// access describes the credentials for a server, for an error about them.
type access struct {
	// field of the Context for such credentials.
	field string
	// server with the refusal.
	server string
	// tried is set if there were credentials. problems are those of others.
	tried    bool
	problems []string
}

// refused is the error about an answer with 401 or 403.
func (a access) refused() error {
	problems := strings.Join(a.problems, "; ")
	switch {
	case problems != "":
		return Errorf(CredentialsInvalid, "%s refuses the usable credentials of the Context's %s; "+
			"repair the others: %s", a.server, a.field, problems)
	case a.tried:
		return Errorf(Unauthorized, "%s refuses the credentials of the Context's %s, or they may not read this; "+
			"check user, password and address", a.server, a.field)
	default:
		return Errorf(CredentialsMissing, "%s requires credentials, but the Context has none for it; "+
			"add them to the Context's %s, or correct the address", a.server, a.field)
	}
}

// isRefusal reports whether a status is about credentials.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// statusError is an error about an answer with any other status.
func statusError(who string, status int) error {
	return Errorf(Unavailable, "the %s answered with status %d (%s)", who, status, http.StatusText(status))
}
