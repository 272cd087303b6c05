package chartserver

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
)

// DockerConfig is a docker configuration with the credentials for one host, as in a Secret of the type kubernetes.io/dockerconfigjson.
func DockerConfig(host, user, password string) []byte {
	config, err := json.Marshal(map[string]map[string]map[string]string{"auths": {host: {
		"username": user,
		"password": password,
		"auth":     base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
	}}})
	if err != nil {
		panic(err) //nolint:forbidigo // texts marshal
	}
	return config
}

// BasicAuth is the value of a header Authorization with user and password.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// authorized lets requests pass whose client is known. It is for every way to know one but Bearer.
func authorized(opts Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(opts, r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func known(opts Options, r *http.Request) bool {
	switch opts.Auth {
	case Anybody:
		return true
	case Header:
		return same(r.Header.Get("Authorization"), opts.Authorization)
	default:
		return basic(opts, r)
	}
}

// basic says whether a request has user and password.
func basic(opts Options, r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && same(user, opts.User) && same(password, opts.Password)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// refuse answers with an error as registries write them.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may have gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
