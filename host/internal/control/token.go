package control

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

const (
	// tokenName is the name of the file with the token, beside the socket.
	tokenName  = "control.token"
	tokenBytes = 32
	// authorization is the header with the token, and bearer what precedes the token in it.
	authorization = "Authorization"
	bearer        = "Bearer "
)

// createToken writes a new token into a file in dir that only this user can read.
func createToken(dir string) (token string, err error) {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // it never fails
	token = hex.EncodeToString(random)
	file, err := os.OpenFile(filepath.Join(dir, tokenName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("create the control token: %w", err)
	}
	_, err = file.WriteString(token)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write the control token: %w", err), removeToken(dir))
	}
	return token, nil
}

func readToken(dir string) (string, error) {
	token, err := os.ReadFile(filepath.Join(dir, tokenName)) //nolint:gosec // which directory is the caller's to know
	if err != nil {
		return "", fmt.Errorf("read the control token, which the host's user can do while the host runs: %w", err)
	}
	return string(token), nil
}

func removeToken(dir string) error {
	if err := os.Remove(filepath.Join(dir, tokenName)); err != nil {
		return fmt.Errorf("remove the control token: %w", err)
	}
	return nil
}

// authorized tells whether a request has the token.
func (s *Server) authorized(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(authorization)), []byte(bearer+s.token)) == 1
}

// guard lets nothing through to next without the token.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.authorized(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.answer(w, http.StatusUnauthorized, &Failure{Error: "the request does not have the control token of this host; send what is in " + tokenName +
			` beside the socket in the header "Authorization: Bearer TOKEN", or use the pergola of the host's own version`})
	})
}
