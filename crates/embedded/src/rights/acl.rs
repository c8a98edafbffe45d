//! ACLs in Kafka's words and numbers, and filters that select them.

/// The one name of the cluster as a resource.
pub(crate) const CLUSTER_NAME: &str = "kafka-cluster";
/// Kafka's number for "any" in every field of a filter that is a number.
const ANY: i8 = 1;
/// In a filter: literal, wildcard and prefixed patterns that match the name.
const MATCH: i8 = 2;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $code,)*
        }

        impl $name {
            /// The variant with Kafka's number.
            pub(crate) fn from_code(code: i8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's number.
            pub(crate) fn code(self) -> i8 {
                self as i8
            }
        }
    };
}

numbered! {
    /// What a right is about.
    Resource {
        /// A topic.
        Topic = 2,
        /// A group.
        Group = 3,
        /// The cluster; its only name is `kafka-cluster`.
        Cluster = 4,
        /// A transactional id.
        TransactionalId = 5,
        /// A delegation token.
        DelegationToken = 6,
        /// A user.
        User = 7,
    }
}

numbered! {
    /// What somebody may do.
    Operation {
        /// Everything.
        All = 2,
        /// Read.
        Read = 3,
        /// Write.
        Write = 4,
        /// Create.
        Create = 5,
        /// Delete.
        Delete = 6,
        /// Alter.
        Alter = 7,
        /// See; implied by read, write, delete and alter.
        Describe = 8,
        /// What brokers do among themselves.
        ClusterAction = 9,
        /// See settings; implied by altering them.
        DescribeConfigs = 10,
        /// Alter settings.
        AlterConfigs = 11,
        /// Write with a producer id and no transactional id.
        IdempotentWrite = 12,
        /// Create delegation tokens.
        CreateTokens = 13,
        /// See delegation tokens.
        DescribeTokens = 14,
        /// Take part in two-phase commits.
        TwoPhaseCommit = 15,
    }
}

numbered! {
    /// How an ACL names its resources.
    Pattern {
        /// By their name; `*` is every name.
        Literal = 3,
        /// By the beginning of their name.
        Prefixed = 4,
    }
}

numbered! {
    /// Whether an ACL allows or denies. One that denies wins.
    Permission {
        /// Denies.
        Deny = 2,
        /// Allows.
        Allow = 3,
    }
}

impl Resource {
    /// The operations that make sense for it, which `authorizedOperations` speaks of (KIP-430).
    pub(crate) fn operations(self) -> &'static [Operation] {
        use Operation as O;
        match self {
            Self::Topic => &[
                O::Read,
                O::Write,
                O::Create,
                O::Delete,
                O::Alter,
                O::Describe,
                O::DescribeConfigs,
                O::AlterConfigs,
            ],
            Self::Group => &[O::Read, O::Delete, O::Describe, O::DescribeConfigs, O::AlterConfigs],
            Self::Cluster => &[
                O::Create,
                O::Alter,
                O::Describe,
                O::ClusterAction,
                O::DescribeConfigs,
                O::AlterConfigs,
                O::IdempotentWrite,
            ],
            Self::TransactionalId => &[O::Write, O::Describe, O::TwoPhaseCommit],
            Self::DelegationToken => &[O::Describe],
            Self::User => &[O::CreateTokens, O::DescribeTokens],
        }
    }
}

/// One access control entry with the resources it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    /// What kind of resource.
    pub resource: Resource,
    /// How `name` is meant.
    pub pattern: Pattern,
    /// The resource's name, its beginning, or `*`.
    pub name: String,
    /// Whom it is about: `User:alice`, or `User:*` for everybody.
    pub principal: String,
    /// From which address, or `*`.
    pub host: String,
    /// What is allowed or denied.
    pub operation: Operation,
    /// Whether it is allowed or denied.
    pub permission: Permission,
}

impl Acl {
    /// Allows `principal` an operation on a resource of that name (`*`: of any name), from anywhere.
    pub fn allow(principal: &str, operation: Operation, resource: Resource, name: &str) -> Self {
        Self {
            resource,
            pattern: Pattern::Literal,
            name: name.to_owned(),
            principal: principal.to_owned(),
            host: "*".to_owned(),
            operation,
            permission: Permission::Allow,
        }
    }

    /// Denies it instead.
    pub fn denied(mut self) -> Self {
        self.permission = Permission::Deny;
        self
    }

    /// Means all names that begin like this.
    pub fn prefixed(mut self) -> Self {
        self.pattern = Pattern::Prefixed;
        self
    }

    /// Only from this address.
    pub fn from_host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// Whether the resource of this kind and name is meant.
    pub(crate) fn names(&self, resource: Resource, name: &str) -> bool {
        self.resource == resource
            && match self.pattern {
                Pattern::Literal => self.name == name || self.name == "*",
                Pattern::Prefixed => name.starts_with(&self.name),
            }
    }

    /// Whether somebody is meant who connects from `host`.
    pub(crate) fn is_about(&self, principal: &str, host: &str) -> bool {
        (self.principal == principal || self.principal == "User:*")
            && (self.host == host || self.host == "*")
    }
}

/// What DescribeAcls and DeleteAcls select by; `None` selects everything.
#[derive(Clone, Debug)]
pub(crate) struct AclFilter<'a> {
    pub resource: i8,
    pub name: Option<&'a str>,
    pub pattern: i8,
    pub principal: Option<&'a str>,
    pub host: Option<&'a str>,
    pub operation: i8,
    pub permission: i8,
}

impl AclFilter<'_> {
    /// Why this cannot be a filter (`AclBindingFilter.isUnknown`).
    pub(crate) fn check(&self) -> Result<(), String> {
        let known = |code: i8, known: bool| code == ANY || known;
        let wrong = |what: &str| Err(format!("The AclBindingFilter contains an unknown {what}."));
        if !known(self.resource, Resource::from_code(self.resource).is_some()) {
            return wrong("resource type");
        }
        if self.pattern != MATCH && !known(self.pattern, Pattern::from_code(self.pattern).is_some())
        {
            return wrong("pattern type");
        }
        if !known(self.operation, Operation::from_code(self.operation).is_some()) {
            return wrong("operation");
        }
        if !known(self.permission, Permission::from_code(self.permission).is_some()) {
            return wrong("permission type");
        }
        Ok(())
    }

    /// Whether it selects an ACL.
    pub(crate) fn selects(&self, acl: &Acl) -> bool {
        let number = |wanted: i8, code: i8| wanted == ANY || wanted == code;
        let text = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
        number(self.resource, acl.resource.code())
            && (self.pattern == MATCH || number(self.pattern, acl.pattern.code()))
            && self.selects_name(acl)
            && text(self.principal, &acl.principal)
            && text(self.host, &acl.host)
            && number(self.operation, acl.operation.code())
            && number(self.permission, acl.permission.code())
    }

    fn selects_name(&self, acl: &Acl) -> bool {
        let Some(name) = self.name else { return true };
        if self.pattern != MATCH {
            return name == acl.name;
        }
        match acl.pattern {
            Pattern::Literal => name == acl.name || acl.name == "*",
            Pattern::Prefixed => name.starts_with(&acl.name),
        }
    }
}
