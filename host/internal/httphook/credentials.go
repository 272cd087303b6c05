package httphook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the secrets of a hook, beside those of Kubernetes for a certificate and its key.
const (
	keyAuthorities = corev1.ServiceAccountRootCAKey
	keyToken       = corev1.ServiceAccountTokenKey
)

// TLSConfig makes the TLS settings of a hook from the data of the secret that its registration names, and the name that the server's
// certificate is for. Both may be empty. The error names the key of the secret and holds nothing of its content.
func TLSConfig(secret map[string][]byte, serverName string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if authorities, ok := secret[keyAuthorities]; ok {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("expected certificates in PEM in the key %s of the secret, but found none", keyAuthorities)
		}
	}
	certificate, hasCertificate := secret[corev1.TLSCertKey]
	key, hasKey := secret[corev1.TLSPrivateKeyKey]
	if hasCertificate != hasKey {
		return nil, fmt.Errorf("expected the keys %s and %s of the secret together, but found only one of them", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	if hasCertificate {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("expected a certificate and its private key in PEM in the keys %s and %s of the secret: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Authorization makes the value of the header of that name from the data of the secret that a registration names. The error names the
// key of the secret and holds nothing of its content.
func Authorization(secret map[string][]byte) (string, error) {
	token, hasToken := secret[keyToken]
	user, hasUser := secret[corev1.BasicAuthUsernameKey]
	password, hasPassword := secret[corev1.BasicAuthPasswordKey]
	switch {
	case hasToken && (hasUser || hasPassword):
		return "", fmt.Errorf("expected either the key %s of the secret, or %s and %s, but found both", keyToken, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	case hasToken:
		return bearer(string(token))
	case hasUser && hasPassword:
		if strings.Contains(string(user), ":") {
			return "", fmt.Errorf("expected a name without a colon in the key %s of the secret, as the header cannot hold one", corev1.BasicAuthUsernameKey)
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(string(user)+":"+string(password))), nil
	}
	return "", fmt.Errorf("expected the key %s of the secret, or %s and %s, but found none", keyToken, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
}

// bearer takes a token as people write it into secrets: with a newline at its end.
func bearer(token string) (string, error) {
	token = strings.TrimRight(token, "\r\n")
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("expected a token of visible ASCII characters in the key " + keyToken + " of the secret")
	}
	return "Bearer " + token, nil
}
