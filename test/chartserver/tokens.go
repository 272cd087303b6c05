package chartserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// tokenPath is where the token service is.
const tokenPath = "/token"

// tokenService gives tokens for user and password, and knows those that it has given, as Docker's registry describes it.
type tokenService struct {
	opts Options

	mu sync.Mutex
	// realm is the address of the service, and service what the registry is called there.
	realm, service string
	// given are the scopes of the tokens that are valid.
	given map[string][]string
}

// ServeHTTP answers GET with basic credentials, and POST with a form as OAuth2 has it.
func (s *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "UNSUPPORTED", "the form cannot be read")
		return
	}
	if _, service := s.where(); r.Form.Get("service") != service {
		refuse(w, http.StatusBadRequest, "UNSUPPORTED", "there is no such service here")
		return
	}
	if !s.known(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="tokens"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	token := s.give(strings.Fields(strings.Join(r.Form["scope"], " ")))
	w.Header().Set("Content-Type", "application/json")
	// The client may have gone.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"token": token, "access_token": token, "expires_in": 300, "issued_at": time.Now().UTC().Format(time.RFC3339),
	})
}

func (s *tokenService) known(r *http.Request) bool {
	switch {
	case s.opts.User == "":
		return true
	case r.Method == http.MethodGet:
		return basic(s.opts, r)
	case r.Method != http.MethodPost:
		return false
	case r.PostForm.Get("grant_type") == "refresh_token":
		return s.opts.IdentityToken != "" && same(r.PostForm.Get("refresh_token"), s.opts.IdentityToken)
	default:
		return same(r.PostForm.Get("username"), s.opts.User) && same(r.PostForm.Get("password"), s.opts.Password)
	}
}

// give makes a token for scopes, such as "repository:charts/plain:pull".
func (s *tokenService) give(scopes []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := rand.Text()
	s.given[token] = scopes
	return token
}

// expire makes all tokens invalid.
func (s *tokenService) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.given)
}

// require lets requests pass that come with a token that allows them.
func (s *tokenService) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wanted, action := scopeOf(r)
		valid, allowed := s.allows(r.Header.Get("Authorization"), wanted, action)
		if valid && allowed {
			next.ServeHTTP(w, r)
			return
		}
		realm, service := s.where()
		challenge := fmt.Sprintf("Bearer realm=%q,service=%q", realm, service)
		if wanted != "" {
			challenge += fmt.Sprintf(",scope=%q", wanted+":"+action)
		}
		if valid {
			challenge += `,error="insufficient_scope"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	})
}

// allows says whether the header has a token, and whether that allows an action on a resource; everybody with a token may ping.
func (s *tokenService) allows(header, resource, action string) (valid, allowed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scopes, valid := s.given[strings.TrimPrefix(header, "Bearer ")]
	if !valid || resource == "" {
		return valid, valid
	}
	return true, slices.ContainsFunc(scopes, func(scope string) bool {
		actions, ok := strings.CutPrefix(scope, resource+":")
		return ok && subset(strings.Split(action, ","), strings.Split(actions, ","))
	})
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// scopeOf is the resource of a request, such as "repository:charts/plain", and what is done with it; empty for a ping.
func scopeOf(r *http.Request) (resource, action string) {
	elements := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	i := slices.IndexFunc(elements, func(e string) bool { return e == "manifests" || e == "blobs" || e == "tags" })
	if i < 1 {
		return "", ""
	}
	resource = "repository:" + strings.Join(elements[:i], "/")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return resource, "pull"
	}
	return resource, "pull,push"
}

// set tells where the service and the registry are, once that is known.
func (s *tokenService) set(realm, service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.realm, s.service = realm, service
}

func (s *tokenService) where() (realm, service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.realm, s.service
}
