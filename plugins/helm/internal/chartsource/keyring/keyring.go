// Package keyring finds the credentials that are meant for a registry or a chart repository among those of a Context.
//
// Docker configurations are matched as the kubelet does it. An entry is for a host, with a port unless it is the usual one, and may name a
// path, which it is then for with all below it; "*" stands for a part of the host's name, such as in "*.example.org". A scheme in front and
// "/v1/" or "/v2/" behind mean nothing, and all names of Docker Hub are the same. Of several entries that match, the most specific comes
// first: a host by its full name before one with a "*", then the longer path, then the Secret that the Context names first. Other than with
// the kubelet a path ends at a slash: "host/charts" is not for "host/charts-of-others".
//
// Credentials for chart repositories are for addresses of the same scheme, host and port, and of the path or below it. The longest path
// wins.
package keyring

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
)

// DockerHub is the name of Docker's registry that NormalizeHost gives to all its names.
const DockerHub = "docker.io"

// Login is what a registry lets somebody in for.
type Login struct {
	Username, Password string
	// IdentityToken is exchanged for others by the registry's token server, RegistryToken is one of those.
	IdentityToken, RegistryToken string
}

// Hash adds the login to a hash, so that different ones differ.
func (l Login) Hash(h hash.Hash) {
	HashFields(h, l.Username, l.Password, l.IdentityToken, l.RegistryToken)
}

// HashFields adds texts to a hash with their lengths, so that none can be taken for the end of another.
func HashFields(h hash.Hash, fields ...string) {
	for _, field := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
		h.Write([]byte(field))
	}
}

// Logins are what there is for one registry.
type Logins struct {
	// Usable ones, the most specific first.
	Usable []Login
	// Problems are those of credentials that might have been for the registry, each with the name of its Secret.
	Problems []string
}

// ForRegistry returns the logins for a repository of a registry.
func ForRegistry(credentials []sdk.RegistryCredentials, registry, repository string) Logins {
	type match struct {
		key   key
		login Login
	}
	var matches []match
	var logins Logins
	host := NormalizeHost(registry)
	for _, c := range credentials {
		if c.Problem != "" {
			logins.Problems = append(logins.Problems, fmt.Sprintf("Secret %q: %s", c.Secret, c.Problem))
			continue
		}
		entries, err := parseDockerConfig(c.DockerConfig)
		if err != nil {
			logins.Problems = append(logins.Problems, fmt.Sprintf("Secret %q: %v", c.Secret, err))
			continue
		}
		for _, e := range entries {
			switch {
			case !e.key.matches(host, repository), e.login == Login{} && e.err == nil:
			case e.err != nil:
				logins.Problems = append(logins.Problems, fmt.Sprintf("Secret %q: %v", c.Secret, e.err))
			default:
				matches = append(matches, match{key: e.key, login: e.login})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return a.key.compare(b.key) })
	for _, m := range matches {
		if !slices.Contains(logins.Usable, m.login) {
			logins.Usable = append(logins.Usable, m.login)
		}
	}
	return logins
}

// entry is one of a docker configuration. err says what is wrong with it alone.
type entry struct {
	key   key
	login Login
	err   error
}

// parseDockerConfig returns the entries in the order of their keys. No error quotes the document.
func parseDockerConfig(document []byte) ([]entry, error) {
	var config struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(document, &config); err != nil {
		return nil, fmt.Errorf("expected a docker configuration, JSON such as {\"auths\": {\"registry.example.org\": {\"auth\": …}}}, but found something else")
	}
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(config.Auths)) {
		auth := config.Auths[name]
		e := entry{key: parseKey(name), login: Login{
			Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
		}}
		if auth.Auth != "" {
			username, password, ok := decodeAuth(auth.Auth)
			if !ok {
				e.err = fmt.Errorf("the entry %q has a field auth that is not user:password in base64", e.key)
			}
			e.login.Username, e.login.Password = username, password
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// decodeAuth is as Docker does it, which passes over zeros at the end.
func decodeAuth(auth string) (username, password string, ok bool) {
	decoded, err := base64.StdEncoding.DecodeString(auth)
	if err != nil {
		decoded, err = base64.RawStdEncoding.DecodeString(auth)
	}
	if err != nil {
		return "", "", false
	}
	username, password, ok = strings.Cut(string(decoded), ":")
	return username, strings.Trim(password, "\x00"), ok
}

// key says what an entry of a docker configuration is for.
type key struct {
	host, path string
}

func parseKey(name string) key {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	host, below, _ := strings.Cut(name, "/")
	// What cannot be the name of a server is not repeated in a message: somebody may have put a password there.
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	below = "/" + below
	for _, version := range []string{"/v1", "/v2"} {
		if rest, ok := strings.CutPrefix(below, version); ok && (rest == "" || rest[0] == '/') {
			below = rest
			break
		}
	}
	return key{host: NormalizeHost(host), path: strings.Trim(below, "/")}
}

// String returns the key as it could be written in a docker configuration.
func (k key) String() string {
	if k.path == "" {
		return k.host
	}
	return k.host + "/" + k.path
}

func (k key) matches(host, repository string) bool {
	return matchesHost(k.host, host) && isBelow(repository, k.path)
}

// matchesHost compares part by part, so that a "*" does not stand for a dot.
func matchesHost(pattern, host string) bool {
	if pattern == host {
		return true
	}
	patterns, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if !strings.Contains(pattern, "*") || len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(patterns[i], parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// isBelow tells whether a path is another one or below it. Both are without slashes at the ends.
func isBelow(inner, outer string) bool {
	return outer == "" || inner == outer || strings.HasPrefix(inner, outer+"/")
}

// compare orders by how specific keys are.
func (k key) compare(other key) int {
	return cmp.Or(
		cmp.Compare(strings.Count(k.host, "*"), strings.Count(other.host, "*")),
		cmp.Compare(len(other.path), len(k.path)),
		cmp.Compare(len(other.host), len(k.host)),
	)
}

// NormalizeHost returns the one spelling of a registry's name.
func NormalizeHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return DockerHub
	default:
		return host
	}
}

// Origin returns scheme, host and port of an address, which two addresses of the same server have in common.
func Origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + " " + port
}

// OriginOf is Origin for a host with or without a port.
func OriginOf(scheme, host string) string { return Origin(&url.URL{Scheme: scheme, Host: host}) }

// ForURL returns the credentials for an address; nil if there are none. They may have a Problem.
func ForURL(credentials []sdk.ChartRepositoryCredentials, address *url.URL) *sdk.ChartRepositoryCredentials {
	var best *sdk.ChartRepositoryCredentials
	longest := -1
	for i := range credentials {
		u, err := url.Parse(strings.TrimSpace(credentials[i].URL))
		if err != nil || u.Host == "" || Origin(u) != Origin(address) {
			continue
		}
		if outer := cleanPath(u); len(outer) > longest && isBelow(cleanPath(address), outer) {
			best, longest = &credentials[i], len(outer)
		}
	}
	return best
}

// cleanPath has no "..", so that no path leaves the one that it begins with.
func cleanPath(u *url.URL) string { return strings.Trim(path.Clean("/"+u.Path), "/") }
