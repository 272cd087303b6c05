package fetch

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pergola-deploy/pergola/sdk"
)

// logins are the credentials of a Context for one repository of a registry.
//
// Docker configurations are matched as the kubelet does it. An entry is for a host, with a port unless it is the
// usual one, and optionally for a path and all paths below it; "*" stands for a part of the host's name, such as in
// "*.example.org". A scheme in front and "/v1/" or "/v2/" behind mean nothing, and all names of Docker Hub are the
// same. Unlike with the kubelet, a path ends at a slash: "host/charts" is not for "host/charts-of-others".
type logins struct {
	// usable ones, the most specific first: a host by its full name before one with a "*", then the longer path, then
	// the earlier Secret in the Context.
	usable []auth.Credential
	// problems are those of other credentials, possibly for the registry, each with the name of its Secret.
	problems []string
}

// loginsFor returns the logins for a repository of a registry.
func loginsFor(credentials []sdk.RegistryCredentials, registry, repository string) logins {
	var matches []dockerEntry
	var found logins
	host := NormalizeHost(registry)
	for _, c := range credentials {
		problem := func(text any) {
			found.problems = append(found.problems, fmt.Sprintf("Secret %q: %v", c.Secret, text))
		}
		if c.Problem != "" {
			problem(c.Problem)
			continue
		}
		entries, err := parseDockerConfig(c.DockerConfig)
		if err != nil {
			problem(err)
		}
		for _, e := range entries {
			switch {
			case !e.matches(host, repository):
			case e.err != nil:
				problem(e.err)
			case e.login != auth.EmptyCredential:
				matches = append(matches, e)
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b dockerEntry) int {
		return cmp.Or(
			cmp.Compare(a.wildcards(), b.wildcards()),
			cmp.Compare(len(b.path), len(a.path)),
			cmp.Compare(len(b.host), len(a.host)),
		)
	})
	for _, m := range matches {
		if !slices.Contains(found.usable, m.login) {
			found.usable = append(found.usable, m.login)
		}
	}
	return found
}

// dockerEntry is one entry of a docker configuration. err is about this entry alone.
type dockerEntry struct {
	host, path string
	login      auth.Credential
	err        error
}

// parseDockerConfig returns the entries in the order of their keys. No error quotes the document.
func parseDockerConfig(document []byte) ([]dockerEntry, error) {
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
		return nil, errors.New("expected a docker configuration, JSON such as " +
			`{"auths": {"registry.example.org": {"auth": …}}}, but found something else`)
	}
	var entries []dockerEntry
	for _, name := range slices.Sorted(maps.Keys(config.Auths)) {
		found := config.Auths[name]
		e := newDockerEntry(name)
		e.login = auth.Credential{
			Username: found.Username, Password: found.Password,
			RefreshToken: found.IdentityToken, AccessToken: found.RegistryToken,
		}
		if found.Auth != "" {
			var ok bool
			if e.login.Username, e.login.Password, ok = decodeAuth(found.Auth); !ok {
				e.err = fmt.Errorf("the entry %q has an invalid field auth: expected user:password in base64",
					path.Join(e.host, e.path))
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// newDockerEntry reads the key of an entry: its host and path.
func newDockerEntry(key string) dockerEntry {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, below, _ := strings.Cut(key, "/")
	// No message quotes a key without a valid host name: it may be a password.
	host = host[strings.LastIndexByte(host, '@')+1:]
	for _, version := range []string{"v1", "v2"} {
		if rest, ok := strings.CutPrefix(below, version); ok && (rest == "" || rest[0] == '/') {
			below = rest
			break
		}
	}
	return dockerEntry{host: NormalizeHost(host), path: strings.Trim(below, "/")}
}

// decodeAuth decodes the field auth as Docker does: it ignores zeros at the end.
func decodeAuth(text string) (username, password string, ok bool) {
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return "", "", false
	}
	username, password, ok = strings.Cut(string(decoded), ":")
	return username, strings.Trim(password, "\x00"), ok
}

func (e dockerEntry) matches(host, repository string) bool {
	return e.serves(host) && isBelow(repository, e.path)
}

// Serves reports whether the key of an entry in a docker configuration is for a registry, at any path of it.
func Serves(key, registry string) bool { return newDockerEntry(key).serves(NormalizeHost(registry)) }

// serves compares the host part by part, because no pattern stands for a dot.
func (e dockerEntry) serves(host string) bool {
	if e.host == host || host == DockerHub {
		return e.host == host || strings.HasSuffix(e.host, "."+DockerHub)
	}
	return slices.EqualFunc(strings.Split(e.host, "."), strings.Split(host, "."), func(pattern, part string) bool {
		ok, err := path.Match(pattern, part)
		return err == nil && ok
	})
}

func (e dockerEntry) wildcards() int { return strings.Count(e.host, "*") + strings.Count(e.host, "?") }

// isBelow reports whether a path equals another one or is below it. Both are without slashes at the ends.
func isBelow(inner, outer string) bool {
	return outer == "" || inner == outer || strings.HasPrefix(inner, outer+"/")
}

// DockerHub is the default registry of images. It has several names.
const DockerHub = "docker.io"

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

// ServerOf returns scheme, host and port of an address, equal for all addresses of a server.
func ServerOf(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + " " + port
}

// CredentialsFor returns the credentials for the same scheme, host and port as an address, and for its path or one
// above; the longest path wins. It returns nil for none. They may have a Problem.
func CredentialsFor(all []sdk.ChartRepositoryCredentials, address *url.URL) *sdk.ChartRepositoryCredentials {
	// Without "..", no path leads out of its own prefix.
	clean := func(u *url.URL) string { return strings.Trim(path.Clean("/"+u.Path), "/") }
	var best *sdk.ChartRepositoryCredentials
	longest := -1
	for i := range all {
		u, err := url.Parse(strings.TrimSpace(all[i].URL))
		if err != nil || u.Host == "" || ServerOf(u) != ServerOf(address) {
			continue
		}
		if outer := clean(u); len(outer) > longest && isBelow(clean(address), outer) {
			best, longest = &all[i], len(outer)
		}
	}
	return best
}
