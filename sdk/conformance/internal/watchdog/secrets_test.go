package watchdog

import (
	"encoding/base64"
	"strings"
	"testing"
)

const (
	key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0\n-----END PRIVATE KEY-----\n"
	pin = "48151623-42"

	login = `{"auth":{"username":"administrator1","password":"` + pin + `"}}`
)

// TestSecrets: credentials of a Target are secret in each form, and nothing beside them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	kubeconfig := `{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: ` +
		`\"https://prod.example.org:6443\", certificate-authority-data: Q0VSVElGSUNBVEUtT0YtUFJPRA==}\n` +
		`users:\n- name: deployer-of-prod\n  user: {token: abcdefgh.12345678, client-key-data: ` +
		base64.StdEncoding.EncodeToString([]byte(key)) + `}\n"}`
	for name, test := range map[string]struct {
		content, item string
		text          string
		secret        bool
	}{
		"the token of a kubeconfig":       {kubeconfig, "", "401 for Bearer abcdefgh.12345678", true},
		"the token in base64":             {kubeconfig, "", "YWJjZGVmZ2guMTIzNDU2Nzg", true},
		"a line of its key":               {kubeconfig, "", "parse MC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0", true},
		"the server of a kubeconfig":      {kubeconfig, "", "dial https://prod.example.org:6443: refused", false},
		"the CA of a kubeconfig":          {kubeconfig, "", "Q0VSVElGSUNBVEUtT0YtUFJPRA==", false},
		"the name of a user":              {kubeconfig, "", "deployer-of-prod may not list pods", false},
		"the frame of a key":              {kubeconfig, "", "-----BEGIN PRIVATE KEY-----", false},
		"an own token":                    {`{"url":"https://a.example.org","apiToken":"` + pin + `"}`, "", pin, true},
		"YAML":                            {"url: a.example.org\npassword: " + pin, "", pin, true},
		"a list":                          {`{"credentials":[{"value":"` + pin + `"}]}`, "", pin, true},
		"the name of a Secret":            {`{"secretName":"shop-credentials"}`, "", "shop-credentials", false},
		"the address for tokens":          {`{"tokenURL":"https://a.example.org"}`, "", "https://a.example.org", false},
		"the user beside a password":      {login, "", "administrator1", false},
		"the password beside a user":      {login, "", pin, true},
		"a short password":                {`{"password":"s3cret"}`, "", "s3cret", false},
		"a password of a word":            {`{"password":"password"}`, "", "the password is wrong", false},
		"a password that the item has":    {`{"password":"` + pin + `"}`, `{"spec":"` + pin + `"}`, pin, false},
		"the whole content":               {"0123456789abcdef", "", "no such token: 0123456789abcdef", true},
		"no content":                      {"", "", "", false},
		"half a document":                 {`{"token": "` + pin, "", `unexpected end of {"token": "` + pin, true},
		"the rest of a text with a token": {kubeconfig, "", strings.Repeat("x", 1<<10), false},
	} {
		s := &Secrets{}
		s.Add([]byte(test.content), []byte(test.item))
		if s.In([]byte(test.text)) != test.secret {
			t.Errorf("%s: expected secret %t", name, test.secret)
		}
	}
}

// A secret may be at the border of two writes.
func TestSecretInALog(t *testing.T) {
	t.Parallel()
	w, found := New(), 0
	w.Secrets.Note(pin)
	w.ReportTo(func(Breach, string) { found++ })
	log := w.Log(nil)
	for _, text := range []string{"the token is " + pin[:5], pin[5:], " and more"} {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Errorf("expected one breach, but found %d", found)
	}
}
