package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nobody is who asks without a token.
const nobody = "nobody"

// tokenFormat is that of the tokens of ServiceAccounts: two JSON objects and a signature, in base64.
var tokenFormat = regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`)

var client = &http.Client{
	Timeout:   10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// touched is what show-credentials prints.
type touched struct {
	// Tokens are the files and variables with a token, the tokens themselves left out.
	Tokens []string `json:"tokens"`
	// Read are the requests to the API server that it has answered, such as "nobody: /api/v1/secrets".
	Read []string `json:"read"`
	// Refused are those that it has not, with the status, such as "nobody: /api/v1/secrets: 403".
	Refused []string `json:"refused"`
}

// touch fails if there is no API server to try credentials on, which would be no proof of anything.
func touch(paths []string) touched {
	t := touched{Tokens: []string{}, Read: []string{}, Refused: []string{}}
	owners := map[string]string{"": nobody} // of tokens
	apiServer := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	search(func(token, place string) {
		t.Tokens = append(t.Tokens, place)
		owners[token] = place
	})
	for token, owner := range owners {
		for _, path := range targets(token, paths) {
			status, err := get(apiServer+path, token)
			check(err)
			if status == http.StatusOK {
				t.Read = append(t.Read, owner+": "+path)
			} else {
				t.Refused = append(t.Refused, owner+": "+path+": "+strconv.Itoa(status))
			}
		}
	}
	for _, list := range [][]string{t.Tokens, t.Read, t.Refused} {
		slices.Sort(list)
	}
	return t
}

// search finds tokens in all files and variables, those of other processes included, which are there if containers
// share them.
func search(found func(token, place string)) {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		for _, token := range tokenFormat.FindAllString(value, -1) {
			found(token, "$"+name)
		}
	}
	add := func(path string) {
		content, _ := os.ReadFile(path) // nothing if it may not be read
		for _, token := range tokenFormat.FindAllString(string(content), -1) {
			found(token, path)
		}
	}
	roots, kernels := []string{"/"}, []string{"proc", "sys", "dev"}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, process := range processes {
		if filepath.Base(process) != strconv.Itoa(os.Getpid()) {
			add(process + "/environ")
			roots = append(roots, process+"/root/")
		}
	}
	for _, root := range roots {
		// What may not be read is passed over.
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // as above
			case entry.IsDir() && slices.Contains(kernels, strings.TrimPrefix(path, root)):
				return fs.SkipDir
			case entry.Type().IsRegular():
				add(path)
			}
			return nil
		})
	}
}

// targets are the paths that are asked for with a token, of which more are named.
func targets(token string, more []string) []string {
	paths := []string{"/api/v1/namespaces"}
	for _, path := range more {
		paths = append(paths, os.ExpandEnv(path))
	}
	for _, namespace := range []string{"", "default", "kube-system", os.Getenv("POD_NAMESPACE"), namespaceOf(token)} {
		prefix := "/api/v1/"
		if namespace != "" {
			prefix += "namespaces/" + namespace + "/"
		}
		paths = append(paths, prefix+"secrets", prefix+"configmaps", prefix+"pods")
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// namespaceOf returns the namespace of the ServiceAccount that a token is of; "" if it says none.
func namespaceOf(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	claims, _ := base64.RawURLEncoding.DecodeString(encoded)
	_, account, _ := strings.Cut(string(claims), "system:serviceaccount:")
	namespace, _, _ := strings.Cut(account, ":")
	return namespace
}

// get asks for a URL, with a token if there is one, and returns the status of the answer.
func get(url, token string) (status int, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	check(err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
