// Package mskiam logs in to Amazon MSK by IAM (the SASL mechanism AWS_MSK_IAM): each login is a
// request to kafka-cluster:Connect signed with the credentials that the AWS SDK finds in its
// default chain.
//
// It is a package of its own so that programs which only read by package client do without the SDK.
package mskiam
