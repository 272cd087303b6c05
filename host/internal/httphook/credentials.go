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

// The keys of the secrets of a hook.
const (
	keyAuthorities = corev1.ServiceAccountRootCAKey
	keyCertificate = corev1.TLSCertKey
	keyPrivate     = corev1.TLSPrivateKeyKey
	keyToken       = corev1.ServiceAccountTokenKey
	keyUser        = corev1.BasicAuthUsernameKey
	keyPassword    = corev1.BasicAuthPasswordKey
)

// addTLS adds what the secret of a registration has to its TLS settings: the authorities of the server, the host's own
// certificate, or both. The error names the key of the secret and holds nothing of its content.
func addTLS(config *tls.Config, secret map[string][]byte) error {
	authorities, hasAuthorities := secret[keyAuthorities]
	certificate, hasCertificate := secret[keyCertificate]
	key, hasKey := secret[keyPrivate]
	switch {
	case !hasAuthorities && !hasCertificate && !hasKey: // which must not pass for the authorities of the system
		return fmt.Errorf("expected one of the keys %s, %s and %s, but found none",
			keyAuthorities, keyCertificate, keyPrivate)
	case hasCertificate != hasKey:
		return fmt.Errorf("expected the keys %s and %s together, but found only one of them",
			keyCertificate, keyPrivate)
	}
	if hasAuthorities {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return fmt.Errorf("expected certificates in PEM in the key %s, but found none", keyAuthorities)
		}
	}
	if hasCertificate {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("expected a certificate and its private key in PEM in the keys %s and %s: %w",
				keyCertificate, keyPrivate, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// authorization makes the value of the header of that name from the data of the secret that a registration names. The
// error names the key of the secret and holds nothing of its content.
func authorization(secret map[string][]byte) (string, error) {
	token, hasToken := secret[keyToken]
	user, hasUser := secret[keyUser]
	password, hasPassword := secret[keyPassword]
	switch {
	case hasToken && (hasUser || hasPassword):
		return "", fmt.Errorf("expected either the key %s, or %s and %s, but found both",
			keyToken, keyUser, keyPassword)
	case hasToken:
		return bearer(string(token))
	case !hasUser || !hasPassword:
		return "", fmt.Errorf("expected the key %s, or %s and %s, but found none", keyToken, keyUser, keyPassword)
	case strings.Contains(string(user), ":"):
		return "", fmt.Errorf("expected a name without a colon in the key %s, as the header cannot hold one", keyUser)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(string(user)+":"+string(password))), nil
}

// bearer takes a token as people write it into secrets: with a newline at its end.
func bearer(token string) (string, error) {
	token = strings.TrimRight(token, "\r\n")
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("expected a token of visible ASCII characters in the key " + keyToken)
	}
	return "Bearer " + token, nil
}
