package catalog

import "strings"

// acronyms are those that identifiers write one after the other without a mark between them. Only these can be told
// apart: XMLHTTP is XML and HTTP to who knows both.
var acronyms = func() map[string]bool {
	known := map[string]bool{}
	for _, a := range strings.Fields(`
		ACL AES AI AJAX AMI API ARN ARP ASCII AWS BGP CDN CI CIDR CLI CORS CPU CRM CRUD CSRF CSS CSV DAG DB DHCP DNS DOM
		ECS EKS ERP ETL FTP GCP GIF GPS GPU GRPC GUI GUID HMAC HTML HTTP HTTPS IAM ID IDE IMAP IP JPEG JPG JSON JWT KPI
		LAN LDAP LLM MCP MFA MIME MMS NAT NFC NLP OCR OIDC OKR OS OTP PDF PNG POP PR RAM RBAC RDS REST RPC RSA RSS SAML
		SDK SEO SFTP SHA SLA SMS SMTP SNS SOAP SQL SQS SSD SSH SSL SSO SVG TCP TLS TOML TOTP TSV TTL TXT UDP UI URI URL
		URN USB UTF UUID VAT VLAN VM VPC VPN WAF WAN XHTML XML XSS YAML`) {
		known[a] = true
	}
	return known
}()

// The lengths of the acronyms, and of the longest text in which they are looked for.
const (
	shortestAcronym = 2
	longestAcronym  = 5
	longestAcronyms = 32
)

// appendAcronyms appends the acronyms that a part of a word wholly consists of, or the part itself.
func appendAcronyms(parts []string, part string) []string {
	if len(part) < 2*shortestAcronym || len(part) > longestAcronyms || acronyms[part] {
		return append(parts, part)
	}
	if all, ok := cutAcronyms(parts, part); ok {
		return all
	}
	return append(parts, part)
}

// cutAcronyms cuts text into acronyms, the longest first, and appends them; ok is false if something is left over.
func cutAcronyms(parts []string, text string) (all []string, ok bool) {
	if text == "" {
		return parts, true
	}
	for n := min(longestAcronym, len(text)); n >= shortestAcronym; n-- {
		if acronyms[text[:n]] {
			if all, ok := cutAcronyms(append(parts, text[:n]), text[n:]); ok {
				return all, true
			}
		}
	}
	return nil, false
}
